package manifest

import (
	"regexp"
	"strconv"
)

// The keys of kern's manifest, schema 5, below the top: programs and ops are in their own files.
var (
	topFields = fields{
		"schema_version": "!5", "model": "!its name", "buffers": "!which are peer buffers", "modules": "!names that launches may use",
		"ops": "!launches", "programs": "!calls", "constants": "numbers by name", "topology": "groups of ranks", "vars": "names",
		"states": "names", "cut": "- which stage of a pipeline this is",
	}
	topologyFields = fields{"groups": "!names", "replicated_rows": "- how rows lie on ranks"}
	cutFields      = fields{"id": "-", "stage": "-", "stages": "-"}
	varFields      = fields{"max": "!-"}
	stateFields    = fields{"bytes_per_token": "-", "bytes_per_seq": "-", "bytes": "-", "host": "-"}
	bufferFields   = fields{
		"dtype": "!- but checked", "shape": "!- but checked", "kind": "!peer makes comm", "of": "what a peer buffer points to", "group": "whose",
		"fill": "- what a driver writes there", "domain": "- which values are valid", "export": "- that peers may point to it",
		"bind": "- which tensors a weight is", "placement": "- device or host",
	}
	domainFields  = fields{"min": "-", "max": "-", "index_into": "-", "stride": "-", "monotone": "-"}
	bindFields    = fields{"tensor": "!-", "rows": "-", "cols": "-", "interleave": "-"}
	moduleFields  = fields{"source": "!-", "sha256": "!- but checked"}
	scratchFields = fields{"dtype": "!-", "shape": "!-"}
)

var (
	constantName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	digest       = regexp.MustCompile(`^[0-9a-f]{64}$`)
	dtypes       = set("bf16", "f16", "f32", "fp8e4m3", "fp8e8m0", "i8", "i32", "u32", "i64", "u64", "u8")
	bufferKinds  = set("input", "output", "weight", "workspace", "carry", "peer", "inout")
)

func set(names ...string) map[string]bool {
	s := map[string]bool{}
	for _, name := range names {
		s[name] = true
	}
	return s
}

// A schema is the names of a manifest while it is read.
type schema struct {
	constants, vars, states, groups, modules map[string]bool

	buffers map[string]bool // true: a peer buffer
	ops     map[string]*op
}

// kern reads kern's manifest.
func (m *Manifest) kern(root *value) error {
	if err := root.object(topFields); err != nil {
		return err
	}
	if v := root.get("schema_version"); v.kind != '0' || v.text != "5" {
		return v.fault("%.100q: this reads 5", v.text)
	}
	model := root.get("model")
	if err := model.is('"'); err != nil {
		return err
	}
	m.Model = model.text
	s := schema{buffers: map[string]bool{}, ops: map[string]*op{}}
	for _, part := range []struct {
		key  string
		read func(*value) error
	}{ // constants first: any number below may be one
		{"constants", s.readConstants}, {"topology", s.readTopology}, {"cut", s.readCut}, {"vars", s.readVars}, {"states", s.readStates},
		{"buffers", s.readBuffers}, {"modules", s.readModules}, {"ops", s.readOps},
	} {
		if v := root.get(part.key); v != nil {
			if err := part.read(v); err != nil {
				return err
			}
		}
	}
	programs, err := s.readPrograms(root.get("programs"))
	m.programs = programs
	return err
}

func (s *schema) readConstants(v *value) error {
	s.constants = map[string]bool{}
	return v.each(func(name string, c *value) error {
		if !constantName.MatchString(name) {
			return c.fault("constants are written in UPPER_SNAKE")
		}
		s.constants[name] = true
		return c.is('0')
	})
}

func (s *schema) readTopology(v *value) error {
	if err := v.object(topologyFields); err != nil {
		return err
	}
	s.groups = map[string]bool{}
	return v.get("groups").each(func(name string, size *value) error {
		s.groups[name] = true
		return s.number(size)
	})
}

func (s *schema) readCut(v *value) error { return v.object(cutFields) }

func (s *schema) readVars(v *value) error {
	s.vars = map[string]bool{}
	return v.each(func(name string, c *value) error {
		if err := c.object(varFields); err != nil {
			return err
		}
		s.vars[name] = true
		return s.number(c.get("max"))
	})
}

func (s *schema) readStates(v *value) error {
	s.states = map[string]bool{}
	return v.each(func(name string, c *value) error {
		s.states[name] = true
		return c.object(stateFields)
	})
}

func (s *schema) readBuffers(v *value) error {
	if err := v.is('{'); err != nil {
		return err
	}
	for _, name := range v.keys {
		s.buffers[name] = false // known to each other in any order
	}
	return v.each(func(name string, b *value) error {
		if err := b.object(bufferFields); err != nil {
			return err
		}
		if err := b.get("kind").in(bufferKinds, "kind"); err != nil {
			return err
		}
		if err := s.typed(b); err != nil {
			return err
		}
		if domain := b.get("domain"); domain != nil {
			if err := domain.object(domainFields); err != nil {
				return err
			}
		}
		if bind := b.get("bind"); bind != nil {
			for _, segment := range bind.list {
				if err := segment.object(bindFields); err != nil {
					return err
				}
			}
		}
		if b.get("kind").text != "peer" {
			return nil
		}
		s.buffers[name] = true
		of, group := b.get("of"), b.get("group")
		if of == nil || group == nil {
			return b.fault("a peer buffer needs of and group")
		}
		if _, buffer := s.buffers[of.text]; !buffer && !s.states[of.text] {
			return of.fault("no buffer or state %.100q", of.text)
		}
		return group.in(s.groups, "group")
	})
}

func (s *schema) readModules(v *value) error {
	s.modules = map[string]bool{}
	return v.each(func(name string, m *value) error {
		if err := m.object(moduleFields); err != nil {
			return err
		}
		if sum := m.get("sha256"); !digest.MatchString(sum.text) {
			return sum.fault("%.100q is no SHA-256 in hex", sum.text)
		}
		s.modules[name] = true
		return m.get("source").is('"')
	})
}

// typed wants dtype and shape of a buffer or scratch.
func (s *schema) typed(v *value) error {
	if err := v.get("dtype").in(dtypes, "dtype"); err != nil {
		return err
	}
	shape := v.get("shape")
	if err := shape.is('['); err != nil {
		return err
	}
	for _, n := range shape.list {
		if n.kind == '"' && s.vars[n.text] {
			continue
		}
		if err := s.number(n); err != nil {
			return err
		}
	}
	return nil
}

// number wants a number or a constant's name.
func (s *schema) number(v *value) error {
	if v.kind == '"' {
		if !s.constants[v.text] {
			return v.fault("no constant %.100q", v.text)
		}
		return nil
	}
	return v.is('0')
}

// each visits an object's members.
func (v *value) each(visit func(name string, inner *value) error) error {
	if err := v.is('{'); err != nil {
		return err
	}
	for i, key := range v.keys {
		if err := visit(key, v.list[i]); err != nil {
			return err
		}
	}
	return nil
}

// in wants a string of a set of things.
func (v *value) in(names map[string]bool, what string) error {
	if err := v.is('"'); err != nil {
		return err
	}
	if !names[v.text] {
		return v.fault("no %s %.100q", what, v.text)
	}
	return nil
}

// below wants an integer of 0 to n - 1.
func (v *value) below(n int, what string) (int, error) {
	i, err := strconv.Atoi(v.text)
	if v.kind != '0' || err != nil || i < 0 || i >= n {
		return 0, v.fault("%s %.100q, there are %d", what, v.text, n)
	}
	return i, nil
}
