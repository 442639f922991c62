package ledger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/digest"
)

// meeting is one of ranks with these durations, and a message of so many bytes.
func meeting(kind digest.Kind, bytes uint64, program string, durs ...uint64) *pairing.Meeting {
	shape := &digest.Shape{Sites: []digest.Site{{Call: program + ".call", Kind: kind, Bytes: bytes}}}
	m := &pairing.Meeting{Group: &pairing.Group{Name: "tp:0"}, Shortest: durs[0]}
	for i, d := range durs {
		m.Seats = append(m.Seats, pairing.Seat{Rank: &pairing.Rank{ID: int64(i)}, Step: &digest.Step{Program: program, Shape: shape, Calls: []digest.Call{{Dur: d}}}, Sites: []int{0}})
		if d < m.Shortest {
			m.Shortest, m.Last = d, i
		}
	}
	return m
}

// The bytes on the bus are those of nccl-tests: of 4 ranks, an all-reduce of 1,000 bytes has 1,500, an all-gather of 1,000 bytes a
// rank 3,000.
func TestBusBytes(t *testing.T) {
	l := New(100)
	l.Meeting(meeting(digest.AllReduce, 1000, "p", 40, 30, 35, 50))
	l.Meeting(meeting(digest.AllGather, 1000, "p", 40, 30, 35, 50))
	l.Meeting(meeting(digest.ReduceScatter, 1000, "p", 40, 31, 35, 50))
	l.Meeting(meeting(digest.Meeting, 1000, "p", 40, 30, 35, 50))
	l.Meeting(meeting(digest.AllReduce, 0, "p", 40, 30, 35, 50))
	var got []Bus
	for _, b := range l.Buses() {
		got = append(got, *b)
	}
	require.Equal(t, []Bus{{"tp:0", "all_gather", 3000, 30}, {"tp:0", "all_reduce", 1500, 30}, {"tp:0", "reduce_scatter", 3000, 31}}, got)
	sums := l.Sums()
	require.Len(t, sums, 4)
	require.EqualValues(t, 151, sums[0].Transfer)
	require.EqualValues(t, 5, sums[1].Last)
	require.Equal(t, []*Call{{"p", "p.call", 5, 4*(10+5+20) + 9 + 4 + 19, 151}}, l.Calls(9))
}

// Label sets are bounded; what is beyond adds up in one that is called other.
func TestLabelSetsAreBounded(t *testing.T) {
	l := New(10)
	for i := range 100 {
		l.Meeting(meeting(digest.AllReduce, 0, fmt.Sprint("p", i), 40, 30))
	}
	sums := l.Sums()
	require.Len(t, sums, 12, "10, and other of two ranks")
	var meetings uint64
	for _, s := range sums {
		meetings += s.Meetings
	}
	require.EqualValues(t, 200, meetings)
}
