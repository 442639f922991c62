package program

import (
	"fmt"
	"strings"
)

// A Meeting is where the ranks of a group wait for each other.
type Meeting uint8

// Kinds of meetings.
const (
	None    Meeting = iota
	Experts         // the ranks that share the experts of a layer
	Tensor          // the ranks that share the tensors of a layer
	Stages          // a rank of a pipeline stage and its peer of the next
)

func (m Meeting) String() string { return [...]string{"none", "ep", "tp", "pp"}[m] }

// A Layout says how ranks share a model: rank = (stage × data-parallel ranks + data-parallel rank)
// × Tensor + tensor rank.
type Layout struct {
	Name   string
	Data   int // data-parallel ranks
	Tensor int // ranks that share a layer's tensors
	Stages int // of the pipeline
}

// Layouts are those that have a name.
func Layouts() []Layout {
	return []Layout{{"dp4ep4", 4, 1, 1}, {"tp2dp4", 4, 2, 1}, {"pp2tp4", 1, 4, 2}}
}

// ParseLayout reads a layout's name, or dpN for N data-parallel ranks.
func ParseLayout(name string) (Layout, error) {
	var names []string
	for _, l := range Layouts() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	var n int
	if _, err := fmt.Sscanf(name, "dp%d", &n); err == nil && n > 0 && n <= 256 && name == fmt.Sprintf("dp%d", n) {
		return Layout{name, n, 1, 1}, nil
	}
	return Layout{}, fmt.Errorf("layout %q, want %s, or dpN for N ranks from 1 to 256", name, strings.Join(names, ", "))
}

// Ranks is how many there are.
func (l Layout) Ranks() int { return l.Data * l.Tensor * l.Stages }

// Stage is the pipeline stage of a rank.
func (l Layout) Stage(rank int) int { return rank / (l.Data * l.Tensor) }

// Replica is the data-parallel rank of a rank: ranks of one have one batch.
func (l Layout) Replica(rank int) int { return rank / l.Tensor % l.Data }

// Group numbers the groups of a kind of meeting: ranks of one number meet.
func (l Layout) Group(m Meeting, rank int) int {
	switch m {
	case Tensor:
		return rank / l.Tensor
	case Stages:
		return rank % (l.Data * l.Tensor)
	}
	return l.Stage(rank)
}

// Members are the ranks of a group, ascending.
func (l Layout) Members(m Meeting, group int) (ranks []int) {
	for r := range l.Ranks() {
		if l.Group(m, r) == group {
			ranks = append(ranks, r)
		}
	}
	return ranks
}
