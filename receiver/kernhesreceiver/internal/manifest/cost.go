package manifest

import (
	"regexp"
	"regexp/syntax"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
)

// Bounds of the expressions of the open form, in instructions of the compiled ones: a{1000} has 1,000, some 40 bytes each.
const (
	maxExpression  = 1 << 14
	maxExpressions = 1 << 18 // of a manifest
)

// MaxCost bounds what one session's labels and kernels cost to match, in instructions times bytes: some seconds at the very worst. 50
// rules of 30 bytes and 1,200 labels of 40 cost about as much. Each byte that the session sends gives perByte back: an engine whose
// labels have the shapes of its batches has new ones all the time.
const (
	MaxCost = 1 << 26
	perByte = 8
)

// Bounds of what is remembered of a session.
const (
	maxLabels  = 1 << 12
	maxKernels = 1 << 16
	maxFits    = 64 // rules that fit one label
)

// instructions is how many a compiled expression has, about; -1: more than most. Repeats are counted, not written out.
func instructions(re *syntax.Regexp, most int) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass:
		n += len(re.Rune)
	}
	for _, sub := range re.Sub {
		of := instructions(sub, most)
		if of < 0 {
			return -1
		}
		n += of
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	if n > most {
		return -1
	}
	return n
}

// A Memory remembers what a manifest says of a session's labels and kernels, and what finding out has cost. The zero Memory is ready.
type Memory struct {
	of      *Manifest
	labels  map[string][]fit
	kernels map[Kernel]known
	spent   uint64
	refused uint64
}

// A fit is a rule that fits a label.
type fit struct {
	meaning Meaning
	kernel  *expression // nil: any kernel
}

type known struct {
	meaning Meaning
	met     bool // a rule fits the label
}

// Refused is how many kernels of new shapes got no meaning, because the session's labels cost too much.
func (m *Memory) Refused() uint64 { return m.refused }

// An expression is a regular expression with what it costs.
type expression struct {
	*regexp.Regexp
	instructions int
}

// pay takes the cost of trying an expression on a text; false: the session has spent all.
func (m *Memory) pay(instructions int, text string) bool {
	m.spent += uint64(instructions+1) * uint64(len(text)+1)
	return m.spent <= MaxCost
}

// Earn gives back a part of what was spent, for bytes that the session has sent.
func (m *Memory) Earn(bytes int) { m.spent -= min(m.spent, uint64(perByte*bytes)) }

// forget begins anew with another manifest; what was spent stays.
func (m *Memory) forget(now *Manifest) {
	if m.of != now || len(m.labels) > maxLabels || len(m.kernels) > maxKernels {
		m.of, m.labels, m.kernels = now, map[string][]fit{}, map[Kernel]known{}
	}
}

// rulesOf are the rules of a manifest that fit a label, in order; false: that costs too much.
func (m *Memory) rulesOf(label string) (fits []fit, ok bool) {
	if fits, ok = m.labels[label]; ok {
		return fits, true
	}
	for i := range m.of.rules {
		r := &m.of.rules[i]
		one := fit{r.meaning, r.kernel}
		if r.pattern == nil {
			if label != r.label {
				continue
			}
		} else {
			if !m.pay(r.pattern.instructions, label) {
				return nil, false
			}
			groups := r.pattern.FindStringSubmatchIndex(label)
			if groups == nil {
				continue
			}
			one.meaning.Op = r.expand(one.meaning.Op, label, groups)
			one.meaning.Name = r.expand(one.meaning.Name, label, groups)
		}
		fits = append(fits, one)
		if one.kernel == nil || len(fits) == maxFits {
			break
		}
	}
	m.labels[label] = fits
	return fits, true
}

// meaning is what a manifest's rules say of a kernel; false: that costs too much.
func (m *Memory) meaning(k Kernel) (of known, ok bool) {
	if of, ok = m.kernels[k]; ok {
		return of, true
	}
	fits, ok := m.rulesOf(k.Call)
	if !ok {
		return known{}, false
	}
	of.met = len(fits) > 0
	path := ""
	for _, one := range fits {
		if one.kernel != nil {
			if path == "" {
				path = classify.Path(k.Name)
			}
			if !m.pay(one.kernel.instructions, path) {
				return known{}, false
			}
			if !one.kernel.MatchString(path) {
				continue
			}
		}
		of.meaning = one.meaning
		break
	}
	m.kernels[k] = of
	return of, true
}
