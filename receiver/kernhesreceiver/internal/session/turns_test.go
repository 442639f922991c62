package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTurnsAreShared: whoever has all processors keeps none from another, and gets none again before one is free.
func TestTurnsAreShared(t *testing.T) {
	all := newTurns()
	all.most = 4
	for range 4 {
		all.begin("greedy")
	}
	all.begin("good") // it hangs if it waits
	all.begin("good")
	waits := make(chan struct{})
	go func() { all.begin("greedy"); close(waits) }()
	for range 2 {
		all.end("good")
		select {
		case <-waits:
			t.Fatal("four are busy yet")
		default:
		}
	}
	all.end("greedy")
	<-waits
	assert.Equal(t, map[string]int{"greedy": 4}, all.users)
	for range 4 {
		all.end("greedy")
	}
	assert.Empty(t, all.users)
}
