package kernwaitsconnector

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernhes/kernhes/internal/durations"
)

// Config is what a user may set.
type Config struct {
	// CollectionInterval is how often metrics are sent. Default: 10s.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// WaitForRanks is how long a step waits for the same step of the other ranks; then it is compared without those that lack. Default: 10s.
	WaitForRanks time.Duration `mapstructure:"wait_for_ranks"`

	// MaxMemoryMiB bounds the memory of the steps that wait. Beyond it the oldest are compared without those that lack. Default: 256.
	MaxMemoryMiB int `mapstructure:"max_memory_mib"`

	// MaxSeries bounds the label sets of each metric of a run; beyond it program and group are `other`. Default: 20000.
	MaxSeries int `mapstructure:"max_series"`

	_ struct{}
}

func createDefaultConfig() component.Config {
	return &Config{CollectionInterval: 10 * time.Second, WaitForRanks: 10 * time.Second, MaxMemoryMiB: 256, MaxSeries: 20000}
}

// Unmarshal reads the configuration.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := durations.Check(conf, c); err != nil {
		return err
	}
	return conf.Unmarshal(c)
}

// Validate names every fault by its YAML key.
func (c *Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.CollectionInterval >= 100*time.Millisecond, "collection_interval: %v: want at least 100ms", c.CollectionInterval)
	check(c.WaitForRanks >= time.Second && c.WaitForRanks <= time.Hour, "wait_for_ranks: %v: want 1s to 1h", c.WaitForRanks)
	check(c.MaxMemoryMiB >= 1 && c.MaxMemoryMiB <= 1<<20, "max_memory_mib: %d: want 1 to %d", c.MaxMemoryMiB, 1<<20)
	check(c.MaxSeries >= 100 && c.MaxSeries <= 1e6, "max_series: %d: want 100 to 1000000", c.MaxSeries)
	return errors.Join(faults...)
}
