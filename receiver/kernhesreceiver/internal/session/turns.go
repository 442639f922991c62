package session

import (
	"runtime"
	"sync"
)

// Turns share the processors among those whose frames are taken. While all processors are busy, a container, or a process outside containers,
// that has half of them waits; others do not. The zero Turns are not ready.
type turns struct {
	mu    sync.Mutex
	free  sync.Cond
	most  int // processors
	busy  int
	users map[string]int
}

func newTurns() *turns {
	t := &turns{most: runtime.GOMAXPROCS(0), users: map[string]int{}}
	t.free.L = &t.mu
	return t
}

// begin waits until it is the turn of a user's frame.
func (t *turns) begin(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.busy >= t.most && t.users[user] >= max(1, t.most/2) {
		t.free.Wait()
	}
	t.busy++
	t.users[user]++
}

// end lets another have its turn.
func (t *turns) end(user string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.users[user]--; t.users[user] == 0 {
		delete(t.users, user)
	}
	t.free.Broadcast()
}
