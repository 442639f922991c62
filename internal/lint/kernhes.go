package lint

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// receivers finds sockets that everybody may use, and dumps.
func (c *configuration) receivers() {
	if len(of(c.Receivers, "kernhes"))+len(of(c.Receivers, "otlp")) == 0 {
		c.add(Fault, "receivers", "none is kernhes or otlp, so no engine is heard")
	}
	sockets := map[string]string{}
	for _, id := range of(c.Receivers, "kernhes") {
		s, key := c.Receivers[id], "receivers::"+id
		if mode, ok := octal(s["socket_mode"]); ok && mode&0o002 != 0 && at(s, "allowed_uids") == nil {
			c.add(Warning, key+"::socket_mode", "every user of this host may send records; write \"0660\", or list allowed_uids")
		}
		if text(s, "dump") != "" && !strings.Contains(text(s, "dump"), "${") {
			c.add(Warning, key+"::dump", "the file grows without bound; it is for tests")
		}
		endpoint := text(s, "endpoint")
		if endpoint == "" {
			endpoint = "unix:///run/kernhes/kernhes.sock"
		}
		if other, ok := sockets[endpoint]; ok {
			c.add(Fault, key+"::endpoint", "%s has %s as well", other, endpoint)
		}
		sockets[endpoint] = key
		signals := c.signalsOf(id)
		if len(signals) > 0 && !signals["metrics"] {
			c.add(Warning, key, "is in no metrics pipeline: losses and device time are seen nowhere")
		}
	}
}

// signalsOf are the signals of the pipelines that have a receiver.
func (c *configuration) signalsOf(receiver string) map[string]bool {
	signals := map[string]bool{}
	for id, p := range c.Service.Pipelines {
		if slices.Contains(p.Receivers, receiver) {
			signals[kind(id)] = true
		}
	}
	return signals
}

// octal reads a mode as the collector does: written with or without quotes.
func octal(v any) (uint64, bool) {
	switch v := v.(type) {
	case string:
		n, err := strconv.ParseUint(v, 8, 32)
		return n, err == nil
	case int: // YAML has read the octal digits already
		return uint64(v), true
	}
	return 0, false
}

// archives finds archives that fill the disk, lose what waits, are open to all, or get what they cannot write.
func (c *configuration) archives() {
	directories := map[string]string{}
	for _, id := range of(c.Exporters, "kernparquet") {
		s, key := c.Exporters[id], "exporters::"+id
		if at(s, "retention", "max_bytes") == nil && at(s, "retention", "max_age") == nil {
			c.add(Warning, key+"::retention", "files are kept until the disk is full; set max_bytes or max_age")
		}
		if at(s, "sending_queue", "storage") == nil {
			c.add(Warning, key+"::sending_queue", "chunks that wait are lost with the process; set storage: file_storage")
		}
		if mode, ok := octal(s["file_mode"]); ok && mode&0o004 != 0 {
			c.add(Warning, key+"::file_mode", "every user of this host may read the archive; write \"0640\"")
		}
		directory := text(s, "directory")
		if other, ok := directories[directory]; ok && directory != "" {
			c.add(Fault, key+"::directory", "%s has %s as well", other, directory)
		}
		directories[directory] = key
		for name, p := range c.Service.Pipelines {
			if slices.Contains(p.Exporters, id) && kind(name) != "logs" {
				c.add(Fault, "service::pipelines::"+name, "%s takes logs only; put it into a logs pipeline", id)
			}
		}
	}
}

// labels finds Prometheus exporters that mix up engines.
func (c *configuration) labels() {
	for _, id := range of(c.Exporters, "prometheus") {
		s := c.Exporters[id]
		if at(s, "resource_constant_labels") == nil && at(s, "resource_to_telemetry_conversion") == nil {
			c.add(Warning, "exporters::"+id, "two engines of one host have the same series; set resource_constant_labels: {included: [\"*\"]}")
		}
	}
}

// memory finds pipelines that nothing keeps from filling the memory.
func (c *configuration) memory() {
	for _, name := range slices.Sorted(maps.Keys(c.Service.Pipelines)) {
		p, key := c.Service.Pipelines[name], "service::pipelines::"+name
		if !slices.ContainsFunc(p.Receivers, func(id string) bool { return kind(id) == "kernhes" }) {
			continue
		}
		at := slices.IndexFunc(p.Processors, func(id string) bool { return kind(id) == "memory_limiter" })
		switch {
		case at < 0:
			c.add(Warning, key, "nothing bounds its memory; add the processor memory_limiter")
		case at > 0:
			c.add(Warning, key, "memory_limiter comes after %s; put it first, else what it refuses is lost", p.Processors[0])
		}
	}
}

// queues finds queues of the logs pipeline that count requests: each chunk has up to 1 MiB.
func (c *configuration) queues() {
	for _, name := range slices.Sorted(maps.Keys(c.Service.Pipelines)) {
		if kind(name) != "logs" {
			continue
		}
		for _, id := range c.Service.Pipelines[name].Exporters {
			s := c.Exporters[id]
			if k := kind(id); k != "otlp" && k != "otlphttp" && k != "otlp_grpc" && k != "otlp_http" && k != "loadbalancing" {
				continue
			}
			if at(s, "sending_queue", "enabled") == false || text(s, "protocol", "otlp", "sending_queue", "sizer") == "bytes" {
				continue // the load-balancing exporter's queues are those of its connections
			}
			if text(s, "sending_queue", "sizer") != "bytes" {
				c.add(Warning, "exporters::"+id+"::sending_queue", "1000 chunks may wait, 1 MiB each; write sizer: bytes and queue_size: 134217728")
			}
		}
	}
}
