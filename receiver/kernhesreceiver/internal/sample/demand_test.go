package sample

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func closed(r *Request) bool {
	select {
	case <-r.Done:
		return true
	default:
		return false
	}
}

// A request waits for the ranks that are behind, and not for those that are past its steps, are of another run or have ended.
func TestARequestWaitsForAllRanks(t *testing.T) {
	b := newBench(Config{})
	for rank := range int64(3) {
		b.offer(candidate("before", 1, rank, 0))
	}
	other := candidate("other run", 1, 9, 0)
	other.Run = 7
	b.offer(other)
	b.offer(candidate("ahead", 100, 4, 0)) // its step 2 is long gone
	r, _, err := b.Ask(Ask{Steps: 1}, b.now, nil)
	require.NoError(t, err)
	assert.Len(t, b.offer(candidate("zero", 2, 0, 0)), 1)
	assert.False(t, closed(r), "ranks 1 and 2 are behind")
	assert.Len(t, b.offer(candidate("two", 2, 2, 0)), 1)
	assert.False(t, closed(r))
	b.offer(other)
	assert.False(t, closed(r))
	assert.Len(t, b.offer(candidate("one", 2, 1, 0)), 1)
	assert.True(t, closed(r))
	got := b.End(r, b.now)
	assert.Equal(t, []Taken{{id(2), 2, 0}, {id(2), 2, 2}, {id(2), 2, 1}}, got.Taken)
	assert.Equal(t, []Taken{{id(2), 2, 4}}, got.Missing)
}

func TestARequestDoesNotWaitForARankThatEnded(t *testing.T) {
	b := newBench(Config{})
	b.offer(candidate("before", 1, 0, 0))
	b.offer(candidate("before", 1, 1, 0))
	r, _, err := b.Ask(Ask{Steps: 1}, b.now, nil)
	require.NoError(t, err)
	b.offer(candidate("zero", 2, 0, 0))
	b.Settle(r, b.now.Add(remembered))
	assert.False(t, closed(r))
	assert.Equal(t, []Taken{{id(2), 2, 1}}, b.missingNow(r))
	b.Settle(r, b.now.Add(remembered+time.Millisecond))
	assert.True(t, closed(r))
	b.Settle(r, b.now.Add(time.Hour)) // once
	assert.Empty(t, b.End(r, b.now.Add(time.Hour)).Missing)
}

// missingNow is what End would say.
func (b *bench) missingNow(r *Request) (missing []Taken) {
	for _, trace := range r.begun {
		b.missing(r, trace, b.now, func(rank int64, _ bool) { missing = append(missing, Taken{trace.trace, trace.seq, rank}) })
	}
	return missing
}

func TestARequestOfOneRankWaitsForNoOther(t *testing.T) {
	b := newBench(Config{})
	b.offer(candidate("before", 1, 0, 0))
	b.offer(candidate("before", 1, 1, 0))
	rank := int64(1)
	r, _, err := b.Ask(Ask{Steps: 1, Rank: &rank}, b.now, nil)
	require.NoError(t, err)
	b.offer(candidate("one", 2, 1, 0))
	assert.True(t, closed(r))
	assert.Empty(t, b.End(r, b.now).Missing)
}

func TestAStepThatPairsWithNoneWaitsForNone(t *testing.T) {
	b := newBench(Config{})
	b.offer(candidate("before", 1, 0, 0))
	r, _, err := b.Ask(Ask{Steps: 1}, b.now, nil)
	require.NoError(t, err)
	b.offer(candidate("alone", unpaired+5, 1, 0))
	assert.True(t, closed(r))
	assert.Empty(t, b.End(r, b.now).Missing)
}

// Steps that are kept already are taken at once: there is nothing to wait for.
func TestARequestForStepsThatAreKept(t *testing.T) {
	b := newBench(Config{})
	b.offer(candidate("zero", 5, 0, 0))
	b.offer(candidate("one", 5, 1, 0))
	seq := uint64(5)
	r, picks, err := b.Ask(Ask{Steps: 1, Seq: &seq}, b.now, nil)
	require.NoError(t, err)
	assert.Len(t, picks, 2)
	assert.True(t, closed(r))
}

func TestSeenRanksAreBounded(t *testing.T) {
	b := newBench(Config{})
	for rank := range int64(3 * maxRanks) {
		b.offer(candidate("x", 1, rank, 0))
	}
	assert.LessOrEqual(t, len(b.ranks), maxRanks)
	b.now = b.now.Add(time.Minute)
	for rank := range int64(maxRanks) {
		b.offer(candidate("x", 1, -1-rank, 0))
	}
	assert.LessOrEqual(t, len(b.ranks), maxRanks)
	r, _, err := b.Ask(Ask{Steps: 1}, b.now, nil)
	require.NoError(t, err)
	b.offer(candidate("x", 2, -1, 0))
	assert.NotEmpty(t, b.missingNow(r), "those seen last are known")
}
