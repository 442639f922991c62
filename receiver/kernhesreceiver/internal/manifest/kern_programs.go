package manifest

import "regexp"

var (
	programFields = fields{
		"calls": "!", "batch": "- but checked: how a serving loop drives it", "once": "-", "graph": "- launches and node records say it", "derive": "-",
	}
	batchFields = fields{"groups": "!-", "rows": "!-", "span": "-", "context": "-"}
	callFields  = fields{"label": "the NVTX text", "op": "!", "args": "!which are peer buffers"}
	// argFields are the keys of a call's argument, beside one source.
	argFields = set("buf", "state", "offset")
)

// maxCalls bounds the calls of all programs: 10 times the largest known.
const maxCalls = 1 << 17

// A program is its calls in order.
type program struct {
	calls   []call
	labels  map[string][]int // calls by label
	bare    []int            // calls that have none
	entries map[string]bool  // paths of all kernels that it names
}

// A call is one call of a program.
type call struct {
	label, op, name string
	launches        []launch // shared by calls of the same op and kind of arguments
}

func (s *schema) readPrograms(v *value) (map[string]*program, error) {
	programs := map[string]*program{}
	total := 0
	return programs, v.each(func(name string, one *value) error {
		if err := one.object(programFields); err != nil {
			return err
		}
		if batch := one.get("batch"); batch != nil {
			if err := s.readBatch(batch); err != nil {
				return err
			}
		}
		calls := one.get("calls")
		if err := calls.is('['); err != nil {
			return err
		}
		if total += len(calls.list); total > maxCalls {
			return calls.fault("more than %d calls", maxCalls)
		}
		p := &program{labels: map[string][]int{}, entries: map[string]bool{}}
		for _, c := range calls.list {
			made, err := s.readCall(c)
			if err != nil {
				return err
			}
			if made.label != "" {
				p.labels[made.label] = append(p.labels[made.label], len(p.calls))
			} else {
				p.bare = append(p.bare, len(p.calls))
			}
			for i := range made.launches {
				if l := &made.launches[i]; l.kind == kernelLaunch {
					p.entries[l.path] = true
				}
			}
			p.calls = append(p.calls, made)
		}
		programs[name] = p
		return nil
	})
}

func (s *schema) readBatch(v *value) error {
	if err := v.object(batchFields); err != nil {
		return err
	}
	for _, key := range []string{"groups", "rows"} {
		if err := s.expr(v.get(key)); err != nil {
			return err
		}
	}
	return nil
}

// hash is what kern appends to the name of an op that was built from a source.
var hash = regexp.MustCompile(`\.[0-9a-f]{8,64}$`)

func (s *schema) readCall(v *value) (c call, err error) {
	if err := v.object(callFields); err != nil {
		return c, err
	}
	if label := v.get("label"); label != nil {
		if err := label.is('"'); err != nil {
			return c, err
		}
		c.label = label.text
	}
	name := v.get("op")
	if err := name.is('"'); err != nil {
		return c, err
	}
	o := s.ops[name.text]
	if o == nil {
		return c, name.fault("no op %.100q", name.text)
	}
	args := v.get("args")
	if err := args.is('['); err != nil {
		return c, err
	}
	if len(args.list) != o.params {
		return c, args.fault("%d arguments for %d parameters of op %.100q", len(args.list), o.params, o.name)
	}
	peers := make([]byte, len(args.list))
	for i, arg := range args.list {
		peer, err := s.readCallArg(arg)
		if err != nil {
			return c, err
		}
		if peer {
			peers[i] = 1
		}
	}
	c.op, c.name, c.launches = o.name, hash.ReplaceAllString(o.name, ""), o.of(peers)
	return c, nil
}

// readCallArg reports whether an argument of a call is a peer buffer.
func (s *schema) readCallArg(v *value) (peer bool, err error) {
	sources := 0
	err = v.each(func(key string, inner *value) error {
		if key != "offset" {
			sources++
		}
		switch {
		case !argFields[key]:
			return s.scalar(v, key, inner)
		case key == "offset":
			return s.expr(inner)
		case key == "state":
			return inner.in(s.states, "state")
		}
		p, ok := s.buffers[inner.text]
		if !ok || inner.kind != '"' {
			return inner.fault("no buffer %.100q", inner.text)
		}
		peer = p
		return nil
	})
	if err == nil && sources != 1 {
		err = v.fault("want one source, got %d", sources)
	}
	return peer, err
}

// of is the op's launches in a call whose arguments marked 1 are peer buffers.
func (o *op) of(peers []byte) []launch {
	if made, ok := o.made[string(peers)]; ok {
		return made
	}
	made := make([]launch, len(o.launches))
	for i, l := range o.launches {
		l.comm = l.kind == ncclLaunch
		for _, p := range l.params {
			l.comm = l.comm || peers[p] == 1
		}
		made[i] = l
	}
	o.made[string(peers)] = made
	return made
}
