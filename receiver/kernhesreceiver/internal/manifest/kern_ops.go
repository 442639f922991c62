package manifest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
)

var (
	opFields     = fields{"params": "!how many arguments", "impl": "!launches"}
	implFields   = fields{"scratch": "names", "launches": "!"}
	kernelFields = fields{
		"module": "!checked", "entry": "!the kernel's symbol", "block": "!- but checked", "grid": "!- but checked", "params": "how many arguments",
		"args": "which carry peer buffers", "shared_mem": "-", "cluster": "-", "pdl": "-", "when": "that it may make no kernel",
	}
	externFields = fields{"entry": "!", "params": "how many arguments", "args": "checked"}
	whenFields   = fields{"var": "!checked", "min": "-", "max": "-"}
	packFields   = fields{"size": "!-", "fields": "!"}
	param        = regexp.MustCompile(`^((in|out|inout) (buffer<[a-z0-9]+>|state)|i32|i64|f32|u8)$`)
	launchParam  = regexp.MustCompile(`^((in|out|inout) (buffer<[a-z0-9]+>|state)|i32|i64|f32|u8|bytes<[0-9]+>)$`)
	cublas       = regexp.MustCompile(`^extern:cublas(lt_bf16_tn(_acc|_tile)?|_bf16_tn_f32|lt_fp8_tn(_f32)?)$`)
	nccl         = regexp.MustCompile(`^extern:nccl_(allreduce|allgather|reducescatter)_(f32|bf16|i32|u8)$`)
)

// An op is an interface and its launches.
type op struct {
	name     string
	params   int
	launches []launch
	made     map[string][]launch // the launches of its calls, by which arguments are peer buffers
}

// A launch starts one entry of a module, or a built-in.
type launch struct {
	entry  string
	path   string // entry as classify.Path has it
	kind   launchKind
	maybe  bool  // it may make no kernel
	params []int // of its op, that it is given: peer buffers among them make it comm
	comm   bool  // settled for a call
}

type launchKind uint8

const (
	kernelLaunch launchKind = iota
	cublasLaunch            // 1 or 2 kernels whose names only the library knows
	ncclLaunch              // 1 kernel, or 0 if the count is 0
)

func (s *schema) readOps(v *value) error {
	return v.each(func(name string, o *value) error {
		if err := o.object(opFields); err != nil {
			return err
		}
		params, err := o.get("params").params(param)
		if err != nil {
			return err
		}
		impl := o.get("impl")
		if err := impl.object(implFields); err != nil {
			return err
		}
		scratch := map[string]bool{}
		if all := impl.get("scratch"); all != nil {
			if err := all.each(func(name string, one *value) error {
				scratch[name] = true
				if err := one.object(scratchFields); err != nil {
					return err
				}
				return s.typed(one)
			}); err != nil {
				return err
			}
		}
		launches := impl.get("launches")
		if err := launches.is('['); err != nil {
			return err
		}
		if len(launches.list) == 0 {
			return launches.fault("is empty")
		}
		made := &op{name: name, params: params, made: map[string][]launch{}}
		for _, one := range launches.list {
			l, err := s.readLaunch(one, params, scratch)
			if err != nil {
				return err
			}
			made.launches = append(made.launches, l)
		}
		s.ops[name] = made
		return nil
	})
}

// params wants a list of parameters and counts them.
func (v *value) params(form *regexp.Regexp) (int, error) {
	if err := v.is('['); err != nil {
		return 0, err
	}
	for _, p := range v.list {
		if p.kind != '"' || !form.MatchString(p.text) {
			return 0, p.fault("%.100q is no parameter", p.text)
		}
	}
	return len(v.list), nil
}

func (s *schema) readLaunch(v *value, opParams int, scratch map[string]bool) (l launch, err error) {
	if err := v.is('{'); err != nil {
		return l, err
	}
	entry := v.get("entry")
	if entry == nil {
		return l, v.fault(`key "entry" is missing`)
	}
	if err := entry.is('"'); err != nil {
		return l, err
	}
	l.entry, l.path = entry.text, classify.Path(entry.text)
	switch {
	case nccl.MatchString(l.entry):
		l.kind, l.maybe = ncclLaunch, true
	case cublas.MatchString(l.entry):
		l.kind = cublasLaunch
	case strings.HasPrefix(l.entry, "extern:") || l.entry == "":
		return l, entry.fault("no built-in %.100q", l.entry)
	}
	if l.kind == kernelLaunch {
		err = s.readKernel(v, &l)
	} else {
		err = v.object(externFields)
	}
	if err != nil {
		return l, err
	}
	params := opParams
	if own := v.get("params"); own != nil {
		if params, err = own.params(launchParam); err != nil {
			return l, err
		}
	}
	args := v.get("args")
	if args == nil {
		if params != opParams {
			return l, v.fault("%d parameters without args, want the op's %d", params, opParams)
		}
		for i := range params {
			l.params = append(l.params, i)
		}
		return l, nil
	}
	if err := args.is('['); err != nil {
		return l, err
	}
	if len(args.list) != params {
		return l, args.fault("%d arguments for %d parameters", len(args.list), params)
	}
	for _, arg := range args.list {
		if err := s.readArg(arg, opParams, scratch, &l); err != nil {
			return l, err
		}
	}
	return l, nil
}

// readKernel reads what only launches of a module's entry have.
func (s *schema) readKernel(v *value, l *launch) error {
	if err := v.object(kernelFields); err != nil {
		return err
	}
	if err := v.get("module").in(s.modules, "module"); err != nil {
		return err
	}
	for _, key := range []string{"block", "grid", "cluster"} {
		size := v.get(key)
		if size == nil {
			continue
		}
		if size.kind != '[' || len(size.list) != 3 {
			return size.fault("want three numbers")
		}
		for _, n := range size.list {
			if err := s.expr(n); err != nil {
				return err
			}
		}
	}
	if n := v.get("shared_mem"); n != nil {
		if err := s.number(n); err != nil {
			return err
		}
	}
	when := v.get("when")
	if when == nil {
		return nil
	}
	l.maybe = true
	if err := when.object(whenFields); err != nil {
		return err
	}
	return when.get("var").in(s.vars, "var")
}

// readArg reads an argument of a launch; what it takes of the op's parameters goes to l.
func (s *schema) readArg(v *value, opParams int, scratch map[string]bool, l *launch) error {
	if err := v.is('{'); err != nil {
		return err
	}
	if len(v.keys) != 1 {
		return v.fault("want one source, got %d", len(v.keys))
	}
	inner := v.list[0]
	if v.keys[0] != "pack" {
		return s.readSource(v, v.keys[0], inner, opParams, scratch, l)
	}
	if err := inner.object(packFields); err != nil {
		return err
	}
	if err := s.number(inner.get("size")); err != nil {
		return err
	}
	all := inner.get("fields")
	if err := all.is('['); err != nil {
		return err
	}
	for _, f := range all.list {
		if err := s.readField(f, opParams, scratch, l); err != nil {
			return err
		}
	}
	return nil
}

// readField reads a field of a pack: where it lies, and its source.
func (s *schema) readField(f *value, opParams int, scratch map[string]bool, l *launch) error {
	sources, placed := 0, false
	err := f.each(func(key string, inner *value) error {
		switch key {
		case "at":
			placed = true
			return s.number(inner)
		case "width":
			return s.number(inner)
		}
		sources++
		return s.readSource(f, key, inner, opParams, scratch, l)
	})
	if err != nil {
		return err
	}
	if !placed || sources != 1 {
		return f.fault("want at and one source, got %d", sources)
	}
	return nil
}

// readSource reads where a launch's argument or field comes from.
func (s *schema) readSource(v *value, key string, inner *value, opParams int, scratch map[string]bool, l *launch) error {
	switch key {
	case "param":
		i, err := inner.below(opParams, "parameter")
		if err == nil && !slices.Contains(l.params, i) {
			l.params = append(l.params, i)
		}
		return err
	case "tensormap": // how the tensor lies says nothing of launches: only whose it is
		if err := inner.is('{'); err != nil {
			return err
		}
		if inner.get("param") == nil {
			return inner.fault(`key "param" is missing`)
		}
		return s.readSource(inner, "param", inner.get("param"), opParams, scratch, l)
	case "scratch":
		return inner.in(scratch, "scratch")
	}
	return s.scalar(v, key, inner)
}

// scalar reads an argument that is a number known at the launch. v is the object that key stands in.
func (s *schema) scalar(v *value, key string, inner *value) error {
	switch key {
	case "i32", "i64", "f32", "u8":
		return s.number(inner)
	case "rank": // an own rank alone makes no communication: copies of own rows use it
		return inner.in(s.groups, "group")
	case "var":
		return inner.in(s.vars, "var")
	case "expr":
		return s.expr(inner)
	}
	return v.fault("unknown key %.100q", key)
}

// expr wants an integer, a constant, a var, or {"mul" | "ceil_div" | "add": [expr, expr]}.
func (s *schema) expr(v *value) error {
	if v.kind == '"' && s.vars[v.text] {
		return nil
	}
	if v.kind != '{' {
		return s.number(v)
	}
	if len(v.keys) != 1 || !exprs[v.keys[0]] {
		return v.fault("is no expression")
	}
	pair := v.list[0]
	if pair.kind != '[' || len(pair.list) != 2 {
		return pair.fault("want two operands")
	}
	for _, operand := range pair.list {
		if err := s.expr(operand); err != nil {
			return err
		}
	}
	return nil
}

var exprs = set("mul", "ceil_div", "add")
