package control

import "fmt"

// Bounds of what GET /status answers: some 2 KB a rank, and 300 bytes a problem.
const (
	maxStatusRanks    = 1024
	maxStatusProblems = 200
)

// bound leaves out what makes the status too large: ranks of the sessions that have most of them, and problems, of which the most
// severe come first.
func (s *Status) bound() {
	most := 0
	for i := range s.Sessions {
		most = max(most, len(s.Sessions[i].Ranks))
	}
	listed := func() (n int) {
		for i := range s.Sessions {
			n += min(len(s.Sessions[i].Ranks), most)
		}
		return n
	}
	for most > 1 && listed() > maxStatusRanks {
		most--
	}
	for i := range s.Sessions {
		ranks := &s.Sessions[i].Ranks
		s.LeftOut += len(*ranks) - min(len(*ranks), most)
		*ranks = (*ranks)[:min(len(*ranks), most)]
	}
	if n := len(s.Problems) - maxStatusProblems; n > 0 {
		s.Problems = append(s.Problems[:maxStatusProblems:maxStatusProblems], fmt.Sprintf("and %d more problems", n))
	}
}
