package kernparquetencodingextension

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/component"

	"github.com/kernhes/kernhes/internal/parquet"
)

// Config is what a user may say of the encoding. Each field's comment gives its default.
type Config struct {
	// Table is k (a row a kernel), s (a row a step) or c (a row a copy). Required.
	Table string `mapstructure:"table"`

	// Compression of pages: zstd, snappy or none. Default: zstd.
	Compression string `mapstructure:"compression"`

	// RowGroupRows is how many rows of a rank make a row group. Every later footer of a growing file names each row
	// group again, some 1.4 kB, so fewer are better there. Default: 1048576.
	RowGroupRows int `mapstructure:"row_group_rows"`

	// Path is the `path` of the file exporter that uses this encoding, with one *, where messages are to make one growing
	// file. Default: "", each message is a whole file.
	Path string `mapstructure:"path"`

	// ResourceAttribute is the `group_by: resource_attribute` of that file exporter. Default: kern.window.
	ResourceAttribute string `mapstructure:"resource_attribute"`

	// MaxMessages is how many messages a growing file should have at most; the first beyond is logged, since footers grow
	// with the square. Default: 64.
	MaxMessages int `mapstructure:"max_messages"`

	_ struct{}
}

func createDefaultConfig() component.Config {
	return &Config{Compression: "zstd", RowGroupRows: 1 << 20, ResourceAttribute: "kern.window", MaxMessages: 64}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains(parquet.Tables, parquet.Table(c.Table)) {
		fault("table: %q, want k, s, c or r", c.Table)
	}
	if !slices.Contains([]string{"zstd", "snappy", "none"}, c.Compression) {
		fault("compression: %q, want zstd, snappy or none", c.Compression)
	}
	if c.RowGroupRows <= 0 {
		fault("row_group_rows: %d, want more than 0", c.RowGroupRows)
	}
	if before, _, _ := strings.Cut(c.Path, "*"); c.Path != "" && (before == "" || strings.Count(c.Path, "*") != 1) {
		fault("path: %q, want one *, not at its beginning, as the file exporter's", c.Path)
	}
	if c.ResourceAttribute == "" {
		fault("resource_attribute: empty")
	}
	if c.MaxMessages <= 0 {
		fault("max_messages: %d, want more than 0", c.MaxMessages)
	}
	return errors.Join(faults...)
}
