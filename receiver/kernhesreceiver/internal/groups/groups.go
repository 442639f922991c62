// Package groups turns a rank and a call into the group of ranks that the call communicates with, by a setting.
package groups

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// nested are the axes that divide the ranks of a run among them, innermost first: rank = tp + TP × (cp + CP × (pp + PP × dp)).
// That is how vLLM, SGLang and TensorRT-LLM number ranks.
var nested = []string{"tp", "cp", "pp", "dp"}

// expert is the axis of expert parallelism. It lies across the others: its groups are so many ranks in a row.
const expert = "ep"

// calls say which axis a call communicates on, by its label, op and kernel. They are tried from the top; the first whose
// axis is set and that matches wins. All other calls communicate on the innermost axis.
var calls = []struct {
	axis  string
	match *regexp.Regexp
}{
	{expert, regexp.MustCompile(`(?i)moe|expert|dispatch|combine|all_?to_?all|a2a`)},
	{"pp", regexp.MustCompile(`(?i)send_?recv`)},
}

// Groups are a setting. The zero Groups say nothing of any call.
type Groups struct {
	axes      map[string]axis
	innermost string
}

// An axis has groups of size ranks that lie stride apart.
type axis struct{ stride, size int64 }

// maxRanks bounds the ranks of a run.
const maxRanks = 1 << 24

// Of reads sizes by axis.
func Of(sizes map[string]int64) (Groups, error) {
	g := Groups{axes: map[string]axis{}}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if name != expert && !slices.Contains(nested, name) {
			return Groups{}, fmt.Errorf("axis %q, want one of %s, %s", name, strings.Join(nested, ", "), expert)
		}
		if n := sizes[name]; n < 1 || n > maxRanks {
			return Groups{}, fmt.Errorf("axis %s: %d ranks, want 1 to %d", name, n, maxRanks)
		}
	}
	stride := int64(1)
	for _, name := range nested {
		size, ok := sizes[name]
		if !ok {
			continue
		}
		g.axes[name] = axis{stride, size}
		if stride *= size; stride > maxRanks {
			return Groups{}, fmt.Errorf("%d ranks or more in all, want at most %d", stride, maxRanks)
		}
		if g.innermost == "" {
			g.innermost = name
		}
	}
	if size, ok := sizes[expert]; ok {
		g.axes[expert] = axis{1, size}
		if g.innermost == "" {
			g.innermost = expert
		}
	}
	return g, nil
}

// Call is the group of a comm kernel on a rank, as axis:number; empty: the setting says nothing.
func (g *Groups) Call(rank int64, call, op, kernel string) string {
	if rank < 0 || g.innermost == "" {
		return ""
	}
	name := g.innermost
	for _, c := range calls {
		if _, ok := g.axes[c.axis]; ok && (c.match.MatchString(call) || c.match.MatchString(op) || c.match.MatchString(kernel)) {
			name = c.axis
			break
		}
	}
	a := g.axes[name]
	return name + ":" + strconv.FormatInt(rank/(a.stride*a.size)*a.stride+rank%a.stride, 10)
}
