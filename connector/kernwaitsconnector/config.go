package kernwaitsconnector

import (
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
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

	// MaxSeries bounds the sets of rank, program and group of a run; beyond it program and group are `other`. Default: 20000.
	MaxSeries int `mapstructure:"max_series"`

	// Behaviour finds the kernels in which ranks meet by their times, without their names.
	Behaviour BehaviourConfig `mapstructure:"behaviour"`

	// Send is what goes on to a logs pipeline: `digests` of chunks, or `chunks` as they are. Default: digests.
	Send string `mapstructure:"send"`

	// HTTP is the server that takes GET /status, or of a logs pipeline POST /chunks?for=1m, which has whole chunks sent besides digests, with the settings of confighttp; `enabled: false` for none. Where another has the port, the connector warns and goes without. Default: endpoint 127.0.0.1:8990.
	HTTP configoptional.Optional[confighttp.ServerConfig] `mapstructure:"http"`

	_ struct{}
}

// What goes on to a logs pipeline.
const (
	sendDigests = "digests"
	sendChunks  = "chunks"
)

// BehaviourConfig says what is done with what kernels' times show.
type BehaviourConfig struct {
	// Enabled watches the times of kernels. It needs whole chunks, not digests. Default: true.
	Enabled bool `mapstructure:"enabled"`

	// Override compares kernels that behave as meetings and count as compute, as if they counted as communication. Default: false.
	Override bool `mapstructure:"override"`

	_ struct{}
}

func createDefaultConfig() component.Config {
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Endpoint = "127.0.0.1:8990"
	return &Config{CollectionInterval: 10 * time.Second, WaitForRanks: 10 * time.Second, MaxMemoryMiB: 256, MaxSeries: 20000,
		Behaviour: BehaviourConfig{Enabled: true}, HTTP: configoptional.Some(server), Send: sendDigests}
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
	check(c.Send == sendDigests || c.Send == sendChunks, "send: %q: want digests or chunks", c.Send)
	check(c.Behaviour.Enabled || !c.Behaviour.Override, "behaviour::override: needs behaviour::enabled")
	check(!c.HTTP.HasValue() || c.HTTP.Get().NetAddr.Endpoint != "", "http::endpoint: is empty; for no server: http::enabled: false")
	return errors.Join(faults...)
}
