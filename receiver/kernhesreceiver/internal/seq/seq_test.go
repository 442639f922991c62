package seq

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNextCountsOccurrences plays numbers as engines give them: in order, again from 0, with gaps, back and forth.
func TestNextCountsOccurrences(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []uint64
		want    []uint32
	}{
		{"in order", []uint64{0, 1, 2, 3}, []uint32{0, 0, 0, 0}},
		{"one number always", []uint64{7, 7, 7, 7}, []uint32{0, 1, 2, 3}},
		{"again from 0 twice", []uint64{0, 1, 2, 0, 1, 2, 0, 1, 2, 3}, []uint32{0, 0, 0, 1, 1, 1, 2, 2, 2, 0}},
		{"gaps that close", []uint64{10, 20, 15, 15, 14, 16, 14}, []uint32{0, 0, 0, 1, 0, 0, 1}},
		{"downwards", []uint64{3, 2, 1, 2, 3}, []uint32{0, 0, 0, 1, 1}},
		{"the largest", []uint64{1<<63 - 1, 1<<63 - 1, 0}, []uint32{0, 1, 0}},
	} {
		var n Numbers
		var got []uint32
		for _, number := range c.numbers {
			o, ok := n.Next(Of{}, number)
			require.True(t, ok)
			got = append(got, o)
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// TestRanksCountApart has two ranks of one process share their numbers.
func TestRanksCountApart(t *testing.T) {
	var n Numbers
	for _, rank := range []int64{0, 1} {
		o, ok := n.Next(Of{Rank: rank}, 5)
		require.True(t, ok)
		assert.Zero(t, o, rank)
	}
	o, _ := n.Next(Of{Rank: 1}, 5)
	assert.EqualValues(t, 1, o)
}

// TestNoTwoStepsShareANumber draws numbers at random, far more than are remembered, and holds on to every answer.
func TestNoTwoStepsShareANumber(t *testing.T) {
	for _, highest := range []uint64{3, 1000, 1 << 20, 1 << 47} {
		var n Numbers
		random := rand.New(rand.NewPCG(1, highest))
		had := map[uint64]bool{}
		for range 60_000 {
			number := random.Uint64N(highest)
			o, ok := n.Next(Of{}, number)
			if !ok {
				continue
			}
			s, ok := Number(number, o)
			require.True(t, ok)
			require.False(t, had[s], "number %d, occurrence %d of %d", number, o, highest)
			had[s] = true
		}
		assert.LessOrEqual(t, n.spans, maxSpans)
		total := 0
		for _, l := range n.of {
			for _, s := range l.seen {
				total += len(s)
			}
		}
		assert.Equal(t, total, n.spans)
	}
}

// TestGapsOfAnEngineThatCountsForAll has each rank see every second number, for longer than gaps are remembered.
func TestGapsOfAnEngineThatCountsForAll(t *testing.T) {
	var n Numbers
	for i := range uint64(100_000) {
		o, ok := n.Next(Of{}, 2*i)
		require.True(t, ok)
		require.Zero(t, o)
	}
	o, ok := n.Next(Of{}, 2*99_999)
	assert.True(t, ok)
	assert.EqualValues(t, 1, o, "the last one again")
	o, _ = n.Next(Of{}, 10)
	assert.EqualValues(t, 1, o, "an old one again")
}

// TestRanksAndThreadsAreBounded has each step come on another thread.
func TestRanksAndThreadsAreBounded(t *testing.T) {
	var n Numbers
	for i := range maxOf {
		_, ok := n.Next(Of{Thread: uint32(i)}, 0)
		require.True(t, ok)
	}
	_, ok := n.Next(Of{Rank: maxOf}, 0)
	assert.False(t, ok)
	_, ok = n.Next(Of{}, 1)
	assert.True(t, ok, "those that are known go on")
}

// TestForms holds the numbers of steps against the forms that the archive's documentation gives.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		number     uint64
		occurrence uint32
		want       uint64
		ok         bool
	}{
		{67, 0, 67, true},
		{67, 1, 2305843009213693952 + 281474976710656 + 67, true},
		{67, 8191, 2305843009213693952 + 8191*281474976710656 + 67, true},
		{67, 8192, 0, false},
		{1 << 48, 1, 0, false},
		{1<<61 - 1, 0, 1<<61 - 1, true},
		{1 << 61, 0, 1 << 61, false},
	} {
		got, ok := Number(c.number, c.occurrence)
		assert.Equal(t, c.ok, ok, c)
		if c.ok {
			assert.Equal(t, c.want, got, c)
		}
	}
}

// TestNumbersOfASession are above all others, and differ by session, place and device.
func TestNumbersOfASession(t *testing.T) {
	had := map[uint64]bool{}
	for _, session := range []uint64{0x7a3f9c21, 0x11e5b0d4} {
		for _, place := range []int64{1, 2, 1 << 20, 1<<20 + 1, 1<<21 + 1} {
			for _, device := range []uint16{0, 1, 63} {
				s := OfSession(session, place, device)
				assert.GreaterOrEqual(t, s, uint64(1<<62))
				assert.Less(t, s, uint64(1<<63))
				assert.False(t, had[s], "session %x, place %d, device %d", session, place, device)
				had[s] = true
			}
		}
	}
}

// TestSpansGrowAndMeet: 5 to 7 and 12 to 14 grow by their neighbours, and by no other number, until they are one.
func TestSpansGrowAndMeet(t *testing.T) {
	s := spans{{5, 7}, {12, 14}}
	for number, want := range map[uint64]bool{3: false, 4: true, 8: true, 9: false, 10: false, 11: true, 15: true, 16: false} {
		assert.Equal(t, want, s.touches(number), "%d", number)
		assert.False(t, s.has(number), "%d", number)
	}
	for _, number := range []uint64{5, 7, 12, 13, 14} {
		assert.True(t, s.has(number), "%d", number)
	}
	for _, grown := range []struct {
		by   uint64
		want spans
	}{
		{4, spans{{4, 7}, {12, 14}}}, {8, spans{{4, 8}, {12, 14}}}, {11, spans{{4, 8}, {11, 14}}}, {15, spans{{4, 8}, {11, 15}}},
		{17, spans{{4, 8}, {11, 15}, {17, 17}}}, {9, spans{{4, 9}, {11, 15}, {17, 17}}}, {10, spans{{4, 15}, {17, 17}}}, {16, spans{{4, 17}}},
	} {
		s = s.with(grown.by)
		assert.Equal(t, grown.want, s, "with %d", grown.by)
	}
}
