package kernparquetexporter

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter/exporterhelper"

	"github.com/kernhes/kernhes/exporter/kernparquetexporter/internal/archive"
	"github.com/kernhes/kernhes/internal/durations"
	"github.com/kernhes/kernhes/internal/parquet"
)

// Config is what a user may set.
type Config struct {
	// Directory is where the files go; it is made if need be, and one exporter may have it. Required. Default: "".
	Directory string `mapstructure:"directory"`

	// Layout is where files lie in it: `flat`, or `hive`, which has folders TABLE/date=…/run=… (of arrival, in UTC) for engines that read partitions. Default: flat.
	Layout string `mapstructure:"layout"`

	// FileMode is the permission of the files, octal, less the process's umask. The folder is made with 0750. Default: "0640".
	FileMode fileMode `mapstructure:"file_mode"`

	// Roll closes the files at each multiple of this since midnight UTC, by the time of arrival. Default: 30m.
	Roll time.Duration `mapstructure:"roll"`

	// RowGroupRows is how many rows of a rank make a row group of table k; fewer if 2097152 kernels wait in memory, all ranks together. Default: 131072.
	RowGroupRows int `mapstructure:"row_group_rows"`

	// Compression is of pages: zstd, snappy or none. Default: zstd.
	Compression string `mapstructure:"compression"`

	// Profile is how much CPU time the numbers of table k are worth: fast, or small, which takes twice the time for five sixths of the bytes. Default: fast.
	Profile string `mapstructure:"profile"`

	// Retention says which closed files go.
	Retention RetentionConfig `mapstructure:"retention"`

	// HTTP is the server that takes POST /flush and GET /status, with the settings of confighttp; `enabled: false` for none. Where another has the port, the exporter warns and goes without. Default: endpoint 127.0.0.1:8989.
	HTTP configoptional.Optional[confighttp.ServerConfig] `mapstructure:"http"`

	// HTTPHosts are names by which the server may be asked, beside addresses, localhost and its own host. A name of another site can be made to lead here. Default: [].
	HTTPHosts []string `mapstructure:"http_hosts"`

	// Queue holds chunks until they are on the disk, with the settings of exporterhelper; a `storage` makes it persistent. Default: sizer bytes, queue_size 134217728, num_consumers 1, batch of 1048576 bytes or 200ms.
	Queue configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`

	// Retry says how a write that failed is repeated, with the settings of exporterhelper. Default: 5s to 30s apart, for ever (max_elapsed_time 0).
	Retry configretry.BackOffConfig `mapstructure:"retry_on_failure"`

	_ struct{}
}

// Where files lie.
const (
	layoutFlat = "flat"
	layoutHive = "hive"
)

// RetentionConfig says which closed files are removed; those that are open never are.
type RetentionConfig struct {
	// MaxAge removes files whose roll ended longer ago than this; 0 keeps them. Default: 0s.
	MaxAge time.Duration `mapstructure:"max_age"`

	// MaxBytes removes the oldest files while all closed ones have more bytes than this; 0 keeps them. Default: 0.
	MaxBytes int64 `mapstructure:"max_bytes"`

	_ struct{}
}

// fileMode is written "0640" or 0640 in YAML (whose integers may be octal).
type fileMode uint32

// UnmarshalText reads octal digits.
func (m *fileMode) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil {
		return fmt.Errorf("file_mode: %q is not octal, want something like \"0640\"", text)
	}
	*m = fileMode(v)
	return nil
}

// MarshalText writes octal digits.
func (m fileMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

func createDefaultConfig() component.Config {
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Endpoint = "127.0.0.1:8989"
	// A flush answers when gigabytes are synced; a slow disk takes longer than the 30 s that are usual.
	server.WriteTimeout = 0

	// One consumer: chunks are written one batch after the other anyway, and so they stay in order.
	queue := exporterhelper.NewDefaultQueueConfig()
	queue.Sizer, queue.QueueSize, queue.NumConsumers = exporterhelper.RequestSizerTypeBytes, 128<<20, 1
	// A batch is one sync of the journal. No max_size: it would refuse the chunk that is larger.
	queue.Batch = configoptional.Some(exporterhelper.BatchConfig{
		Sizer: exporterhelper.RequestSizerTypeBytes, FlushTimeout: 200 * time.Millisecond, MinSize: 1 << 20,
	})

	// The queue's bound is what ends the waiting for a full disk.
	retry := configretry.NewDefaultBackOffConfig()
	retry.MaxElapsedTime = 0

	return &Config{
		Layout:       layoutFlat,
		FileMode:     fileMode(archive.DefaultMode),
		Roll:         30 * time.Minute,
		RowGroupRows: parquet.DefaultRowGroupRows,
		Compression:  "zstd",
		Profile:      string(parquet.DefaultProfile),
		HTTP:         configoptional.Some(server),
		Queue:        configoptional.Some(queue),
		Retry:        retry,
	}
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
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Directory == "" {
		fault("directory: is required")
	}
	if c.FileMode&0o600 != 0o600 || c.FileMode > 0o666 {
		fault("file_mode: %04o: want 0600 to 0666, with 0600 in it", uint32(c.FileMode))
	}
	if c.Roll < time.Second || c.Roll > 24*time.Hour || c.Roll%time.Second != 0 || 24*time.Hour%c.Roll != 0 {
		fault("roll: %v: want whole seconds of which a day is a multiple", c.Roll)
	}
	// Fewer make files of which more is footer than rows; more take 80 MB and upwards before they are written.
	if c.RowGroupRows < 1024 || c.RowGroupRows > 1<<22 {
		fault("row_group_rows: %d: want 1024 to %d", c.RowGroupRows, 1<<22)
	}
	if c.Layout != layoutFlat && c.Layout != layoutHive {
		fault("layout: %q: want flat or hive", c.Layout)
	}
	switch c.Compression {
	case "zstd", "snappy", "none":
	default:
		fault("compression: %q: want zstd, snappy or none", c.Compression)
	}
	switch parquet.Profile(c.Profile) {
	case parquet.Fast, parquet.Small:
	default:
		fault("profile: %q: want fast or small", c.Profile)
	}
	if c.Retention.MaxAge < 0 {
		fault("retention::max_age: %v: must not be below 0", c.Retention.MaxAge)
	}
	if c.Retention.MaxBytes < 0 {
		fault("retention::max_bytes: %d: must not be below 0", c.Retention.MaxBytes)
	}
	if c.HTTP.HasValue() && c.HTTP.Get().NetAddr.Endpoint == "" {
		fault("http::endpoint: is empty; for no server: http::enabled: false")
	}
	return errors.Join(faults...)
}
