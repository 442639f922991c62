// Package lint turns a collector's configuration into the mistakes in it that the collector itself accepts.
package lint

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Level says what a finding means.
type Level string

// Levels.
const (
	Fault   Level = "fault"   // the collector does not start, or does not do what the configuration says
	Warning Level = "warning" // it works, at a price or a risk
)

// A Finding is one mistake.
type Finding struct {
	Level Level
	Key   string // where, with :: between the levels
	Text  string // what is wrong, then what to write
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Level, f.Key, f.Text) }

// A settings is a part of the configuration.
type settings = map[string]any

// A pipeline is one of service::pipelines.
type pipeline struct {
	Receivers  []string `yaml:"receivers"`
	Processors []string `yaml:"processors"`
	Exporters  []string `yaml:"exporters"`
}

// A configuration is the part of a collector's that checks look at.
type configuration struct {
	Receivers  map[string]settings `yaml:"receivers"`
	Processors map[string]settings `yaml:"processors"`
	Exporters  map[string]settings `yaml:"exporters"`
	Connectors map[string]settings `yaml:"connectors"`
	Extensions map[string]settings `yaml:"extensions"`
	Service    struct {
		Extensions []string            `yaml:"extensions"`
		Pipelines  map[string]pipeline `yaml:"pipelines"`
		Telemetry  struct {
			Metrics struct {
				Readers []any `yaml:"readers"`
			} `yaml:"metrics"`
		} `yaml:"telemetry"`
	} `yaml:"service"`

	findings []Finding
}

// Check finds the mistakes in the text of a configuration, faults first. It knows no values of ${...}.
func Check(text []byte) ([]Finding, error) {
	c := &configuration{}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, err
	}
	for _, check := range []func(*configuration){
		(*configuration).unused, (*configuration).unstarted, (*configuration).ports, (*configuration).receivers,
		(*configuration).archives, (*configuration).labels, (*configuration).memory, (*configuration).queues,
	} {
		check(c)
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(string(a.Level), string(b.Level)), strings.Compare(a.Key, b.Key))
	})
	return c.findings, nil
}

func (c *configuration) add(level Level, key, format string, args ...any) {
	c.findings = append(c.findings, Finding{level, key, fmt.Sprintf(format, args...)})
}

// kind is a component's type: what stands before the slash of its id.
func kind(id string) string {
	name, _, _ := strings.Cut(id, "/")
	return name
}

// of are the components of a type, in order of their ids.
func of(all map[string]settings, name string) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if kind(id) == name {
			ids = append(ids, id)
		}
	}
	return ids
}

// at is a setting below others, or nil.
func at(s settings, keys ...string) any {
	var v any = s
	for _, k := range keys {
		m, ok := v.(settings)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

// text is a setting as text, or "".
func text(s settings, keys ...string) string {
	v := at(s, keys...)
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// unused finds components that no pipeline has: the collector ignores them.
func (c *configuration) unused() {
	used := map[string]bool{}
	for _, p := range c.Service.Pipelines {
		for _, id := range slices.Concat(p.Receivers, p.Processors, p.Exporters) {
			used[id] = true
		}
	}
	for _, part := range []struct {
		key string
		all map[string]settings
	}{{"receivers", c.Receivers}, {"processors", c.Processors}, {"exporters", c.Exporters}} {
		for id := range part.all {
			if !used[id] {
				c.add(Fault, part.key+"::"+id, "is in no pipeline, so it does nothing; add it to one in service::pipelines")
			}
		}
	}
	for id := range c.Connectors {
		for role, in := range map[string]func(pipeline) []string{
			"a receiver":  func(p pipeline) []string { return p.Receivers },
			"an exporter": func(p pipeline) []string { return p.Exporters },
		} {
			has := func(p pipeline) bool { return slices.Contains(in(p), id) }
			if !slices.ContainsFunc(slices.Collect(maps.Values(c.Service.Pipelines)), has) {
				c.add(Fault, "connectors::"+id, "is in no pipeline as %s; it joins two: an exporter of one, a receiver of the other", role)
			}
		}
	}
	for id := range c.Extensions {
		if !slices.Contains(c.Service.Extensions, id) {
			c.add(Fault, "extensions::"+id, "is not started; add it to service::extensions")
		}
	}
}

// unstarted finds what rests on an extension that service::extensions lacks: the collector ends at its start.
func (c *configuration) unstarted() {
	for _, part := range []struct {
		key  string
		all  map[string]settings
		keys []string
	}{
		{"exporters", c.Exporters, []string{"sending_queue", "storage"}},
		{"exporters", c.Exporters, []string{"auth", "authenticator"}},
		{"receivers", c.Receivers, []string{"auth", "authenticator"}},
	} {
		for id, s := range part.all {
			extension := text(s, part.keys...)
			if extension != "" && !slices.Contains(c.Service.Extensions, extension) {
				key := strings.Join(append([]string{part.key, id}, part.keys...), "::")
				c.add(Fault, key, "%s is not started; add it to service::extensions", extension)
			}
		}
	}
}

// ports finds addresses that other hosts reach, and those that two components want.
func (c *configuration) ports() {
	users := map[string]string{}
	listens := func(key, address string) {
		if address == "" || strings.Contains(address, "${") {
			return
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return // the collector says so
		}
		if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
			c.add(Warning, key, "%s: other hosts can reach it without a password; write 127.0.0.1:%s, or have a firewall or network policy", address, port)
		}
		if other, ok := users[port]; ok && port != "0" {
			c.add(Fault, key, "%s has port %s as well", other, port)
		}
		users[port] = key
	}
	for _, id := range of(c.Receivers, "kernhes") {
		s := c.Receivers[id]
		if address, ok := s["control_endpoint"].(string); ok {
			listens("receivers::"+id+"::control_endpoint", address)
		} else {
			listens("receivers::"+id+"::control_endpoint", "127.0.0.1:8988")
		}
	}
	// Both have a server whether or not they say so.
	serves := func(part string, all map[string]settings, name, standard string) {
		for _, id := range of(all, name) {
			address := text(all[id], "http", "endpoint")
			if address == "" && at(all[id], "http", "enabled") != false {
				address = standard
			}
			listens(part+"::"+id+"::http::endpoint", address)
		}
	}
	serves("exporters", c.Exporters, "kernparquet", "127.0.0.1:8989")
	serves("connectors", c.Connectors, "kernwaits", "127.0.0.1:8990")
	for _, id := range of(c.Exporters, "prometheus") {
		listens("exporters::"+id+"::endpoint", text(c.Exporters[id], "endpoint"))
	}
	for _, name := range []string{"health_check", "zpages", "pprof"} {
		for _, id := range of(c.Extensions, name) {
			listens("extensions::"+id+"::endpoint", text(c.Extensions[id], "endpoint"))
		}
	}
	for i, reader := range c.Service.Telemetry.Metrics.Readers {
		r, _ := reader.(settings)
		if host, port := text(r, "pull", "exporter", "prometheus", "host"), text(r, "pull", "exporter", "prometheus", "port"); host != "" {
			listens(fmt.Sprintf("service::telemetry::metrics::readers[%d]", i), net.JoinHostPort(host, port))
		}
	}
}
