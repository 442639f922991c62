package kernhesreceiver

import (
	"errors"
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"

	"github.com/kernhes/kernhes/internal/durations"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/groups"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/server"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/trace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/windows"
)

// Config is the receiver's configuration. Each field's comment gives its default.
type Config struct {
	// AddrConfig is the address at which engines connect, with the transport: unix:///path,
	// unix://folder/below/the/working/directory, tcp://host:port. Default:
	// unix:///run/kernhes/kernhes.sock.
	confignet.AddrConfig `mapstructure:",squash"`

	// SocketMode is the permission of the unix socket, octal. Default: "0660".
	SocketMode socketMode `mapstructure:"socket_mode"`

	// AllowedUIDs are the users whose processes may connect to the unix socket. Default: [], all
	// that its mode admits.
	AllowedUIDs []uint32 `mapstructure:"allowed_uids"`

	// CollectionInterval is the time between two exports of the metrics. Default: 10s.
	CollectionInterval time.Duration `mapstructure:"collection_interval"`

	// StepTimeout closes a step as incomplete this long after its last launch, by the watermark. Default: 10s.
	StepTimeout time.Duration `mapstructure:"step_timeout"`

	// ReconnectTimeout is how long a session without a connection waits before its engine counts as gone. Default: 10s.
	ReconnectTimeout time.Duration `mapstructure:"reconnect_timeout"`

	// HandshakeTimeout closes a connection that has not sent HELLO by then. Default: 10s.
	HandshakeTimeout time.Duration `mapstructure:"handshake_timeout"`

	// SilenceTimeout closes a connection after this time without a whole frame, or without the
	// engine's reading what the receiver sent. A healthy shim sends a frame each second. The engine
	// may connect again. Default: 1m.
	SilenceTimeout time.Duration `mapstructure:"silence_timeout"`

	// TLS turns TLS on, with the collector's usual settings (cert_file, key_file, client_ca_file,
	// …). A TCP endpoint that other hosts can reach needs it. Default: none.
	TLS configoptional.Optional[configtls.ServerConfig] `mapstructure:"tls"`

	// Auth names the extension that checks each engine's KERNHES_TOKEN, as `authenticator:
	// bearertokenauth`. Default: none, no token is needed.
	Auth configoptional.Optional[configauth.Config] `mapstructure:"auth"`

	// Patterns select the range texts that are steps. The first that matches wins. Default:
	// step:PROGRAM k=v,… in the default domain.
	Patterns []PatternConfig `mapstructure:"patterns"`

	// CallDomains are the NVTX domains whose innermost range names a kernel's call. Default: [""], the default domain.
	CallDomains []string `mapstructure:"call_domains"`

	// Groups give the ranks that communicate with each other, as the size of each axis: {tp: 2, dp:
	// 4}. They hold for calls whose group neither NCCL's range payload nor `group=` of the step's
	// text gives. Axes are tp, cp, pp, dp, innermost first (rank = tp + TP × (cp + …)), and ep,
	// whose groups are consecutive ranks. Calls of experts use ep, and send/receive uses pp, where
	// those are given. All others use the innermost axis. Default: none, queries assume that all
	// ranks of a run are one group, and report `assumed`.
	Groups map[string]int64 `mapstructure:"groups"`

	// BatchEdges are the inclusive upper bounds of the label batch. Default: 1 2 4 8 16 24 32 48 64 96 128 192 256 512 … 32768.
	BatchEdges []int64 `mapstructure:"batch_edges"`

	// KVEdges are the inclusive upper bounds of the label kv. Default: 1024 4096 16384 65536 131072 262144 1048576.
	KVEdges []int64 `mapstructure:"kv_edges"`

	// StepHistogram says how kern_step_seconds counts steps by wall time.
	StepHistogram HistogramConfig `mapstructure:"step_histogram"`

	// MaxStrings bounds the numbered texts (names of kernels, ranges) of one engine process. It
	// bounds their bytes to 256 times as many. Kernels whose names do not fit have no name.
	// Default: 65536.
	MaxStrings int `mapstructure:"max_strings"`

	// MaxRanges bounds the range texts of one engine process that name calls. It bounds their bytes
	// to 256 times as many. Launches in further ranges have no call. Default: 65536.
	MaxRanges int `mapstructure:"max_ranges"`

	// MaxShapes bounds the shapes of steps that are kept for all sessions, and their memory to 16
	// KiB times as many. Beyond it the oldest are dropped. Default: 4096.
	MaxShapes int `mapstructure:"max_shapes"`

	// MaxSeries bounds the label sets (program, batch, kv) of one rank. Further ones count as
	// `other`. Default: 2000.
	MaxSeries int `mapstructure:"max_series"`

	// MaxSessions bounds the engine processes that are remembered at once. Further ones are
	// refused. Default: 256.
	MaxSessions int `mapstructure:"max_sessions"`

	// MaxNewSessions bounds the sessions that one container begins in a minute. Outside containers
	// it holds for each user, over TCP for each host. Further ones are refused. Default: 300.
	MaxNewSessions int `mapstructure:"max_new_sessions"`

	// MaxConnections bounds the open connections. Further ones are closed at once. Default: 512.
	MaxConnections int `mapstructure:"max_connections"`

	// MaxSessionBytes bounds the memory that one engine process may hold here, in bytes. Default: 268435456 (256 MiB).
	MaxSessionBytes int64 `mapstructure:"max_session_bytes"`

	// MaxTotalSeries bounds the label sets of all ranks together. A rank counts as four. When all
	// are taken, further ones of containers and processes that have their share count as `other`.
	// Records of their further ranks are lost. Default: 2048.
	MaxTotalSeries int `mapstructure:"max_total_series"`

	// MaxTotalBytes bounds the memory of all engine processes together, in bytes, approximately.
	// When it is used up, processes with more than their share close their open steps, and get no
	// further names and graphs. Default: 0, a quarter of the memory that the collector may use.
	MaxTotalBytes int64 `mapstructure:"max_total_bytes"`

	// ControlEndpoint is the host:port of the live page, the status and traces on demand, over
	// plain HTTP; empty: none. If it cannot listen
	// there, the receiver logs that and runs without.
	// Default: 127.0.0.1:8988.
	ControlEndpoint string `mapstructure:"control_endpoint"`

	// ControlHosts are further host names that requests to control_endpoint may carry, beside
	// addresses, localhost and its own host. Other names are refused, because any site can point
	// its name here. Default: [].
	ControlHosts []string `mapstructure:"control_hosts"`

	// Manifest is a file with the op and class of the kernels of each call, for engines that send
	// no manifest: kern's manifest, or the open form. The receiver rereads it when it changes. It
	// refuses a broken one, and shows that in GET /status. Default: "", none.
	Manifest string `mapstructure:"manifest"`

	// ClassTable is a file of rules for kernels that communicate. They come before those that ship
	// with kernhes. The receiver rereads it when it changes, also for running sessions. It refuses
	// a broken one, and shows that in GET /status. Default: "", none.
	ClassTable string `mapstructure:"class_table"`

	// Traces selects the steps that are written as traces, in a traces pipeline.
	Traces TracesConfig `mapstructure:"traces"`

	// RunsFile is the file that remembers the starts of engines. So a name that is used again after
	// a restart of the collector gives another run. Default: "", the path of the unix socket with
	// .runs appended; with TCP none.
	RunsFile string `mapstructure:"runs_file"`

	// Windows says when engines that run with KERNHES_SOFTWARE=windows are traced.
	Windows WindowsConfig `mapstructure:"windows"`

	// Dump is a file to which every step and session is appended as a JSON line. Default: "", none.
	Dump string `mapstructure:"dump"`

	_ struct{}
}

// TracesConfig selects the steps that are written as traces.
type TracesConfig struct {
	// Layout is `tree`, a span for each level of the call labels, or `flat`. Default: tree.
	Layout trace.Layout `mapstructure:"layout"`

	// SampleOneIn writes one trace in this many, the same on all ranks; 0: none. Default: 1000.
	SampleOneIn uint64 `mapstructure:"sample_one_in"`

	// SlowFactor writes steps that took more than this many times the running median of their
	// program, batch and kv. The same step of the other ranks
	// is written too. 0 turns this off. Default: 2.
	SlowFactor float64 `mapstructure:"slow_factor"`

	// Keep is how long the receiver keeps steps that were not chosen, to write them when that step
	// is slow on another rank. Default: 2s.
	Keep time.Duration `mapstructure:"keep"`

	// KeepBytes bounds the memory of kept steps, in bytes. Default: 67108864 (64 MiB).
	KeepBytes int `mapstructure:"keep_bytes"`

	// SpansPerSecond bounds the spans of all traces, on average. Default: 10000.
	SpansPerSecond int `mapstructure:"spans_per_second"`

	_ struct{}
}

// WindowsConfig says when engines that run with KERNHES_SOFTWARE=windows are traced.
type WindowsConfig struct {
	// Every opens a window at each multiple of this in unix time, on all ranks of a run alike; 0:
	// none by the clock. Default: 5m.
	Every time.Duration `mapstructure:"every"`

	// Budget is the share of step time that windows may cost. The length of windows follows from it
	// and from their measured cost: steps inside against steps outside, of equal program, batch and
	// kv, and the time for which edges hold the engine. Default: 0.01.
	Budget float64 `mapstructure:"budget"`

	// Shortest is the least length of a window by the clock. Where the budget pays for less,
	// windows are rarer. Default: 500ms.
	Shortest time.Duration `mapstructure:"shortest"`

	// Longest is the greatest length of a window by the clock. Default: 16s.
	Longest time.Duration `mapstructure:"longest"`

	// LookCloser opens a window of 2s on all ranks of a run when the steps of one rank become
	// slower. These windows have a budget of their own, a fifth of `budget`. Default: true.
	LookCloser bool `mapstructure:"look_closer"`

	_ struct{}
}

// settings is the configuration as windows take it.
func (c *WindowsConfig) settings() windows.Settings {
	return windows.Settings{Every: c.Every, Budget: c.Budget, Shortest: c.Shortest, Longest: c.Longest, Closer: c.LookCloser}
}

// check names what is wrong.
func (c *WindowsConfig) check(fault func(format string, args ...any)) {
	if c.Every != 0 && c.Every < 10*time.Second {
		fault("windows::every: %v: must be at least 10s, or 0 for none", c.Every)
	}
	if !(c.Budget > 0 && c.Budget <= 1) {
		fault("windows::budget: %v: must be above 0 and at most 1", c.Budget)
	}
	if c.Shortest < 100*time.Millisecond || c.Longest < c.Shortest || c.Longest > maxWindow {
		fault("windows::shortest, windows::longest: %v, %v: want 100ms to %v, in this order", c.Shortest, c.Longest, maxWindow)
	}
}

// maxWindow is the longest window that a shim opens.
const maxWindow = 600 * time.Second

// sampling is the configuration as sampling takes it.
func (c *TracesConfig) sampling() sample.Config {
	return sample.Config{OneIn: c.SampleOneIn, Slow: c.SlowFactor, Keep: c.Keep, KeepBytes: c.KeepBytes, Spans: c.SpansPerSecond}
}

// PatternConfig says which range texts of a domain are steps.
type PatternConfig struct {
	// Domain is the NVTX domain's name. Default: "", the default domain.
	Domain string `mapstructure:"domain"`

	// Preset stands for the patterns of an engine: kernhes (step:PROGRAM k=v,…), sglang, tensorrt-llm or vllm. It goes alone.
	// Default: "".
	Preset string `mapstructure:"preset"`

	// Match is a regular expression with the named group program, and any of seq, rank, seqs, tokens, kv, group. Of several
	// groups seqs, tokens or kv their sum counts.
	Match string `mapstructure:"match"`

	// Program names the steps that match, for an expression without that group. Default: "".
	Program string `mapstructure:"program"`

	_ struct{}
}

// socketMode is written "0660" or 0660 in YAML (whose integers may be octal).
type socketMode uint32

// UnmarshalText reads octal digits.
func (m *socketMode) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil {
		return fmt.Errorf("socket_mode: %q is not octal, want something like \"0660\"", text)
	}
	*m = socketMode(v)
	return nil
}

// MarshalText writes octal digits.
func (m socketMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

func createDefaultConfig() component.Config {
	address := confignet.NewDefaultAddrConfig()
	address.Transport = confignet.TransportTypeUnix
	address.Endpoint = "/run/kernhes/kernhes.sock"
	return &Config{
		AddrConfig:         address,
		SocketMode:         0o660,
		CollectionInterval: 10 * time.Second,
		StepTimeout:        10 * time.Second,
		ReconnectTimeout:   10 * time.Second,
		HandshakeTimeout:   10 * time.Second,
		SilenceTimeout:     time.Minute,
		CallDomains:        []string{""},
		BatchEdges: []int64{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512,
			1024, 2048, 4096, 8192, 16384, 32768},
		KVEdges:         []int64{1024, 4096, 16384, 65536, 131072, 262144, 1048576},
		MaxStrings:      65_536,
		MaxRanges:       65_536,
		MaxShapes:       4096,
		MaxSeries:       2000,
		MaxSessions:     256,
		MaxNewSessions:  300,
		MaxConnections:  512,
		MaxSessionBytes: 256 << 20,
		MaxTotalSeries:  2048,
		ControlEndpoint: "127.0.0.1:8988",
		Traces: TracesConfig{
			Layout: trace.Tree, SampleOneIn: 1000, SlowFactor: 2, Keep: 2 * time.Second, KeepBytes: 64 << 20, SpansPerSecond: 10_000,
		},
		Windows: WindowsConfig{Every: 5 * time.Minute, Budget: 0.01, Shortest: 500 * time.Millisecond, Longest: 16 * time.Second, LookCloser: true},
	}
}

// Unmarshal reads the configuration and splits an endpoint of the form transport://address.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	if err := durations.Check(conf, c); err != nil {
		return err
	}
	if err := conf.Unmarshal(c); err != nil {
		return err
	}
	transport, address, ok := strings.Cut(c.Endpoint, "://")
	if !ok {
		return nil
	}
	if conf.IsSet("transport") && string(c.Transport) != transport {
		return fmt.Errorf("endpoint: %q contradicts transport: %q", c.Endpoint, c.Transport)
	}
	c.Endpoint = address
	if err := c.Transport.UnmarshalText([]byte(transport)); err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	return nil
}

// Validate names every fault by its YAML key.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	switch c.Transport {
	case confignet.TransportTypeUnix:
		// Linux: sun_path holds 108 bytes with the final zero; a longer path fails in bind with a bare "invalid argument".
		if scheme, _, ok := strings.Cut(c.Endpoint, ":"); ok && !strings.Contains(scheme, "/") {
			fault("endpoint: %q: want unix:///path, or tcp://host:port", c.Endpoint) // else it were a folder of that name
		} else if !strings.Contains(c.Endpoint, "/") {
			fault("endpoint: unix socket %q is no path with a folder (for TCP: tcp://host:port)", c.Endpoint)
		} else if len(c.Endpoint) > 107 {
			fault("endpoint: unix socket path of %d bytes, at most 107", len(c.Endpoint))
		}
	case confignet.TransportTypeTCP, confignet.TransportTypeTCP4, confignet.TransportTypeTCP6:
		if _, _, err := net.SplitHostPort(c.Endpoint); err != nil {
			fault("endpoint: %q: want host:port: %w", c.Endpoint, err)
		}
	default:
		fault("transport: %q: want unix or tcp", c.Transport)
	}
	if server.Exposed(c.Transport, c.Endpoint) && !c.TLS.HasValue() {
		fault("tls: missing: other hosts can reach %q, so engines must speak TLS there", c.Endpoint)
	}
	if c.Transport == confignet.TransportTypeUnix && c.TLS.HasValue() {
		fault("tls: only on TCP")
	}
	if c.SocketMode > 0o777 {
		fault("socket_mode: %o: want an octal mode up to 0777, quoted: \"0660\"", uint32(c.SocketMode))
	}
	if len(c.AllowedUIDs) > 0 && c.Transport != confignet.TransportTypeUnix {
		fault("allowed_uids: only on a unix socket is it known whose process connects")
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"collection_interval", c.CollectionInterval}, {"step_timeout", c.StepTimeout},
		{"reconnect_timeout", c.ReconnectTimeout}, {"handshake_timeout", c.HandshakeTimeout},
		{"silence_timeout", c.SilenceTimeout},
	} {
		if d.value <= 0 {
			fault("%s: %v: must be above 0", d.key, d.value)
		}
	}
	if c.ControlEndpoint != "" {
		if _, _, err := net.SplitHostPort(c.ControlEndpoint); err != nil {
			fault("control_endpoint: %q: want host:port: %w", c.ControlEndpoint, err)
		}
	}
	c.Traces.check(fault)
	c.Windows.check(fault)
	if _, err := groups.Of(c.Groups); err != nil {
		fault("groups: %w", err)
	}
	for i, p := range c.Patterns {
		if err := p.check(); err != nil {
			fault("patterns[%d]: match: %w", i, err)
		}
	}
	for _, n := range []struct {
		key   string
		value int64
		least int64
	}{
		{"max_strings", int64(c.MaxStrings), 16}, {"max_ranges", int64(c.MaxRanges), 16}, {"max_shapes", int64(c.MaxShapes), 16},
		{"max_series", int64(c.MaxSeries), 1}, {"max_sessions", int64(c.MaxSessions), 1},
		{"max_new_sessions", int64(c.MaxNewSessions), 1}, {"max_connections", int64(c.MaxConnections), 1},
		// One frame may have 16 MiB, so less would refuse what the protocol allows.
		{"max_session_bytes", c.MaxSessionBytes, 32 << 20},
		{"max_total_series", int64(c.MaxTotalSeries), 64},
		{"max_total_bytes", c.MaxTotalBytes, 0},
	} {
		if n.value < n.least {
			fault("%s: %d: must be at least %d", n.key, n.value, n.least)
		}
	}
	for _, e := range []struct {
		key   string
		edges []int64
	}{{"batch_edges", c.BatchEdges}, {"kv_edges", c.KVEdges}} {
		last := int64(0)
		for i, edge := range e.edges {
			if edge <= last || edge == math.MaxInt64 {
				fault("%s[%d]: %d: edges must be above 0 and ascend", e.key, i, edge)
			}
			last = edge
		}
	}
	if _, err := wall.New(c.StepHistogram.Exponential, c.StepHistogram.Bounds); err != nil {
		fault("step_histogram::%w", err)
	}
	return errors.Join(faults...)
}

// A HistogramConfig gives the buckets of a histogram.
type HistogramConfig struct {
	// Exponential makes it an exponential histogram (OTLP), which the Prometheus exporter gives as
	// a native histogram. Its quantiles are off by less than 5%, and one series replaces 47.
	// Prometheus must have native histograms on. Default: false.
	Exponential bool `mapstructure:"exponential"`

	// Bounds are the inclusive upper bounds of a histogram that is not exponential, such as [1ms,
	// 2ms, 5ms]. Default: none, which means 44 bounds from 250 µs to 30 s, four a doubling from 1
	// to 64 ms.
	Bounds []time.Duration `mapstructure:"bounds"`
}

// layout says how steps are counted. Validate has refused what is wrong.
func (c *HistogramConfig) layout() *wall.Layout {
	l, _ := wall.New(c.Exponential, c.Bounds)
	return l
}

// check names what is wrong.
func (c *TracesConfig) check(fault func(format string, args ...any)) {
	if c.Layout != trace.Tree && c.Layout != trace.Flat {
		fault("traces::layout: %q: want tree or flat", c.Layout)
	}
	if c.SlowFactor != 0 && !(c.SlowFactor > 1) {
		fault("traces::slow_factor: %v: must be above 1, or 0 for none", c.SlowFactor)
	}
	if c.Keep < 0 || c.KeepBytes < 0 {
		fault("traces::keep, traces::keep_bytes: %v, %d: must not be below 0", c.Keep, c.KeepBytes)
	}
	if c.SpansPerSecond < 1 {
		fault("traces::spans_per_second: %d: must be at least 1", c.SpansPerSecond)
	}
}

// check compiles the expression and knows its groups.
func (p *PatternConfig) check() error {
	if p.Preset != "" {
		if p.Match != "" || p.Domain != "" || p.Program != "" {
			return errors.New("a preset goes alone")
		}
		if _, ok := ranges.Preset(p.Preset); !ok {
			return fmt.Errorf("preset %q: want one of %s", p.Preset, strings.Join(ranges.PresetNames(), ", "))
		}
		return nil
	}
	if p.Match == "" {
		return fmt.Errorf("is empty: want an expression, or one of the presets %s", strings.Join(ranges.PresetNames(), ", "))
	}
	re, err := regexp.Compile(p.Match)
	if err != nil {
		return err
	}
	return ranges.CheckGroups(re, p.Program)
}

// patterns are the valid configuration's patterns, compiled; the default one if there are none.
func (c *Config) patterns() []ranges.Pattern {
	if len(c.Patterns) == 0 {
		return ranges.Default
	}
	var patterns []ranges.Pattern
	for _, p := range c.Patterns {
		if preset, ok := ranges.Preset(p.Preset); ok {
			patterns = append(patterns, preset...)
		} else {
			patterns = append(patterns, ranges.Pattern{Domain: p.Domain, Match: regexp.MustCompile(p.Match), Program: p.Program})
		}
	}
	return patterns
}

// runsFile is the file that remembers starts; "": none.
func (c *Config) runsFile() string {
	if c.RunsFile == "" && c.Transport == confignet.TransportTypeUnix {
		return c.Endpoint + ".runs"
	}
	return c.RunsFile
}
