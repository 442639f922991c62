package engine

import "sync"

// A Quota is what all sessions share of something. Below its limit each takes what it needs. Above it, a session that has a share or more gets
// nothing further, and the others get theirs: so what is taken in all stays below twice the limit, but for the least that each may have.
//
// A user is the processes of one container, or one process outside containers. A Quota is safe for concurrent use.
type Quota struct {
	limit, least int // least is what a user gets in any case

	mu    sync.Mutex
	total int
	taken map[string]int // by user
}

// NewQuota returns a quota of a limit; 0: there is none.
func NewQuota(limit, least int) *Quota {
	return &Quota{limit: limit, least: least, taken: map[string]int{}}
}

// Take takes n for a user; false: it has its share.
func (q *Quota) Take(user string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limit > 0 && q.total+n > q.limit && q.taken[user]+n > q.share(user) {
		return false
	}
	q.add(user, n)
	return true
}

// Add notes that a user has n more, or less, of what it cannot be refused; it reports whether the user has more than its share of what is
// too much in all.
func (q *Quota) Add(user string, n int) (over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(user, n)
	return q.limit > 0 && q.total > q.limit && q.taken[user] > q.share(user)
}

func (q *Quota) add(user string, n int) {
	q.total += n
	if q.taken[user] += n; q.taken[user] == 0 {
		delete(q.taken, user)
	}
}

// share is what each user may have. The caller holds mu.
func (q *Quota) share(user string) int {
	users := len(q.taken)
	if _, known := q.taken[user]; !known {
		users++
	}
	return max(q.least, q.limit/users)
}

// Total is what all have.
func (q *Quota) Total() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// user is whose shares a process takes.
func (p *Process) user() string {
	if container := p.info[KeyContainer]; container != "" {
		return container
	}
	return "process " + p.info["pid"]
}

// held is what a process has of the quotas; it gives them back when it ends.
type held struct {
	user   string // as the process began
	places int
	bytes  int
}

// Places that something takes of the quota of series. A label set has some 50 series.
const (
	placesOfRank     = 4
	placesOfLabelSet = 1
	placesOfPace     = 2 // of a label set's ranges and intervals
	leastPlaces      = 32
)

// leastMemory is what a user may take in any case, in bytes.
const leastMemory = 8 << 20

// seat takes places for series; false: the process has its share of those of all sessions.
func (p *Process) seat(n int) bool {
	if !p.set.places.Take(p.held.user, n) {
		return false
	}
	p.held.places += n
	return true
}

// seatPace takes the places of a label set's ranges and intervals.
func (p *Process) seatPace() bool {
	if p.seat(placesOfPace) {
		return true
	}
	p.unseated++
	return false
}

// weighed notes what the process takes here, in bytes; it reports whether that is more than its share of what is too much in all.
func (p *Process) weighed(bytes int) (over bool) {
	over = p.set.memory.Add(p.held.user, bytes-p.held.bytes)
	p.held.bytes = bytes
	return over
}

// leaveQuotas gives back what the process had.
func (p *Process) leaveQuotas() {
	p.set.places.Add(p.held.user, -p.held.places)
	p.held.places = 0
	p.weighed(0)
}
