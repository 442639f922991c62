package manifest

import (
	"regexp"
	"regexp/syntax"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

var (
	openFields = fields{"kernhes_manifest": "!1", "model": "its name", "calls": "!rules"}
	ruleFields = fields{
		"label": "the label, whole", "pattern": "or an expression that fits it", "kernel": "an expression that fits the kernel's name",
		"op": "op", "class": "compute, comm, fused or spin", "name": "for people",
	}
	openClasses = map[string]Meaning{
		"compute": {Known: true, Class: span.Compute}, "comm": {Known: true, Class: span.Comm},
		"fused": {Known: true, Class: span.Comm, Fused: true}, "spin": {Known: true, Class: span.Spin},
	}
)

// maxRules bounds the open form; labels are tried against each once a shape.
const maxRules = 4096

// A rule of the open form says what kernels mean whose call and name it fits.
type rule struct {
	label   string      // or
	pattern *expression // of the label
	kernel  *expression // of the kernel's path (classify.Path); nil: any
	meaning Meaning     // Op and Name may use the pattern's groups: $1, ${layer}
}

// open reads the open form.
func (m *Manifest) open(root *value) error {
	if err := root.object(openFields); err != nil {
		return err
	}
	if v := root.get("kernhes_manifest"); v.kind != '0' || v.text != "1" {
		return v.fault("%.100q: this reads 1", v.text)
	}
	if model := root.get("model"); model != nil {
		if err := model.is('"'); err != nil {
			return err
		}
		m.Model = model.text
	}
	calls := root.get("calls")
	if err := calls.is('['); err != nil {
		return err
	}
	if len(calls.list) > maxRules {
		return calls.fault("%d rules, at most %d", len(calls.list), maxRules)
	}
	left := maxExpressions
	for _, v := range calls.list {
		r, err := readRule(v)
		if err != nil {
			return err
		}
		for _, e := range []*expression{r.pattern, r.kernel} {
			if e != nil {
				left -= e.instructions
			}
		}
		if left < 0 {
			return v.fault("the expressions up to here have more than %d instructions", maxExpressions)
		}
		m.rules = append(m.rules, r)
	}
	return nil
}

func readRule(v *value) (r rule, err error) {
	if err := v.object(ruleFields); err != nil {
		return r, err
	}
	for _, inner := range v.list {
		if err := inner.is('"'); err != nil {
			return r, err
		}
	}
	if (v.get("label") == nil) == (v.get("pattern") == nil) {
		return r, v.fault("want either label or pattern")
	}
	if class := v.get("class"); class != nil {
		m, ok := openClasses[class.text]
		if !ok {
			return r, class.fault("%.100q, want compute, comm, fused or spin", class.text)
		}
		r.meaning = m
	}
	if label := v.get("label"); label != nil {
		if r.label = label.text; r.label == "" {
			return r, label.fault("is empty")
		}
	}
	if r.pattern, err = v.expression("pattern"); err != nil {
		return r, err
	}
	if r.kernel, err = v.expression("kernel"); err != nil {
		return r, err
	}
	if op := v.get("op"); op != nil {
		r.meaning.Op = op.text
	}
	if name := v.get("name"); name != nil {
		r.meaning.Name = name.text
	}
	return r, nil
}

// expression is the member of a key as a regular expression, nil if there is none.
func (v *value) expression(key string) (*expression, error) {
	member := v.get(key)
	if member == nil {
		return nil, nil
	}
	tree, err := syntax.Parse(member.text, syntax.Perl)
	if err != nil {
		return nil, member.fault("%w", err)
	}
	n := instructions(tree, maxExpression)
	if n < 0 {
		return nil, member.fault("the expression has more than %d instructions", maxExpression)
	}
	re, err := regexp.Compile(member.text)
	if err != nil {
		return nil, member.fault("%w", err)
	}
	return &expression{re, n}, nil
}

// matchRules gives kernels the meaning of the first rule that fits. A label that no rule fits is a mismatch.
func (m *Manifest) matchRules(memory *Memory, kernels []Kernel, meanings []Meaning) (mismatches int) {
	memory.forget(m)
	for i, k := range kernels {
		if k.Call == "" {
			continue
		}
		of, ok := memory.meaning(k)
		if !ok {
			memory.refused++
		}
		meanings[i] = of.meaning
		if !of.met {
			mismatches++
		}
	}
	return mismatches
}

// expand puts a label's groups into a template, cut at maxText bytes.
func (r *rule) expand(template, label string, groups []int) string {
	b := r.pattern.ExpandString(nil, template, label, groups)
	if len(b) > maxText {
		b = b[:maxText]
	}
	return string(b)
}
