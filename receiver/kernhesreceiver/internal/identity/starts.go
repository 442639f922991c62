package identity

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/runname"
)

// Bounds of what is remembered. The oldest starts are dropped.
const (
	maxStarts = 8192
	maxRanks  = 1 << 17 // of all starts

	maxSessionRanks = 1024 // of one process
	maxStartDevices = 1024 // of one start, whose places are not known
	maxGuesses      = 1024 // of one start
)

// Starts knows which engine processes belong to which start. A name may be used again, so a start is a name's generation:
//
//	a rank that the newest start of the name lacks joins it
//	a rank that it has, brought by another process, begins a new start
//	a process that has run no step only guesses its rank: it shares the rank with a connected process, and holds none
//
// So no two processes run steps of one rank of one run, whatever they say of themselves. Starts is safe for concurrent use.
type Starts struct {
	mu       sync.Mutex
	newest   map[string]*start // by name
	runs     map[string]*start
	sessions map[uint64]*start
	order    []*start // oldest first
	ranks    int      // of all starts, with guesses
	here     map[uint64]presence
	memory   *memory // nil: starts are forgotten with the collector
}

// A start is one start of an engine.
type start struct {
	name    string
	run     string
	ranks   map[int64]uint64   // the session that is each rank
	devices map[string]int64   // ranks by device, where only that says them
	owners  map[string]uint64  // the session that has each device
	held    map[uint64][]int64 // ranks of each session, in the order in which it claimed them
	guesses map[uint64]int64   // the rank that a session without steps guesses
}

// A presence is a connected process that may not be settled yet.
type presence struct {
	launch  string // what launchers say of its start, with the host
	rank    Rank   // a launcher's; zero: none
	name    string
	devices []string // those that it may use
}

// NewStarts returns a Starts that remembers nothing.
func NewStarts() *Starts {
	return &Starts{newest: map[string]*start{}, runs: map[string]*start{}, sessions: map[uint64]*start{}, here: map[uint64]presence{}}
}

// Arrive says that a process is connected, by the pairs of its HELLO.
func (s *Starts) Arrive(session uint64, info map[string]string) {
	text, _ := launch(info)
	rank, _ := launcherRank(info)
	p := presence{launch: info["host"] + " " + text, rank: rank, name: NameOf(info, World{}).Text}
	for device := range uint16(maxDevices) {
		if device > 0 && visibleDevice(info, device) == "" {
			break
		}
		p.devices = append(p.devices, Device(info, device))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.here[session] = p
}

// maxDevices bounds the devices of one process that are looked at.
const maxDevices = 64

// Leave says that a process is not connected any more.
func (s *Starts) Leave(session uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.here, session)
}

// Inherited reports whether another connected process of the host has the launcher's rank of this one: then both inherited it.
func (s *Starts) Inherited(session uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.here[session]
	if own.rank.From == "" {
		return false
	}
	for other, p := range s.here {
		if other != session && p.launch == own.launch && p.rank == own.rank {
			return true
		}
	}
	return false
}

// A Claim is what a process wants to be.
type Claim struct {
	Session uint64
	Name    Name
	World   World
	Host    string
	Started time.Time // the process
	Wants   []Want
	Guess   bool // it has run no step: what it wants may be another process's
}

// A Want is the rank of one device with steps.
type Want struct {
	Rank   int64
	Any    bool   // no rank is known: the device's place among those of the start is it
	Device string // by Device
}

// A Joined is what a process is.
type Joined struct {
	Run   string
	Ranks []int64 // by Want
	Own   []bool  // by Want: no other process is that rank of the run; false for a guess
	Again bool    // the name was used before, so that the run has another
	Live  uint64  // ranks that a process which is still connected has in the newest start of the name
}

// Join settles the run and the ranks of a process. One that has joined before keeps its run.
func (s *Starts) Join(c Claim) (j Joined, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, live := s.sessions[c.Session], uint64(0)
	if st == nil {
		st = s.newest[c.Name.Text]
		live = s.rivals(st, &c)
		if st == nil || s.contested(st, &c) {
			st = s.begin(&c, st != nil)
		}
	}
	s.enter(st, c.Session)
	j = Joined{Run: st.run, Live: live, Again: st.run != c.Name.Text && !c.Name.Local}
	before := len(st.held[c.Session])
	for i := range c.Wants {
		rank, own := s.rankOf(st, &c.Wants[i]), false
		if c.Guess {
			s.guess(st, c.Session, rank)
		} else {
			rank, own = s.claim(st, c.Session, &c.Wants[i])
		}
		j.Ranks, j.Own = append(j.Ranks, rank), append(j.Own, own)
	}
	return j, s.remember(st, c.Session, before)
}

// Own claims one more rank for a process that has joined; false: it is another process's.
func (s *Starts) Own(session uint64, w Want) (rank int64, own bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.sessions[session]
	if st == nil {
		return w.Rank, false, nil
	}
	if _, guessed := st.guesses[session]; guessed { // it has run a step now
		delete(st.guesses, session)
		s.ranks--
	}
	before := len(st.held[session])
	rank, own = s.claim(st, session, &w)
	return rank, own, s.remember(st, session, before)
}

// contested reports whether another process is one of the ranks that a process wants, so that it is of another start.
// A guess does not contest the rank of a connected process, and is no obstacle while processes of its start are connected.
func (s *Starts) contested(st *start, c *Claim) bool {
	if c.Guess && len(st.guesses) >= maxGuesses {
		return true
	}
	return slices.ContainsFunc(c.Wants, func(w Want) bool {
		if owner, ok := st.owner(&w); ok && owner != c.Session {
			_, here := s.here[owner]
			return !c.Guess || !here
		}
		return st.guessed(&w) && !s.alive(st)
	})
}

// owner is the session that has a rank, or a device.
func (st *start) owner(w *Want) (session uint64, ok bool) {
	if w.Any {
		session, ok = st.owners[w.Device]
		return session, ok
	}
	session, ok = st.ranks[w.Rank]
	return session, ok
}

// guessed reports whether a process without steps guessed a rank.
func (st *start) guessed(w *Want) bool {
	rank, ok := w.Rank, true
	if w.Any {
		rank, ok = st.devices[w.Device]
	}
	for _, guess := range st.guesses {
		if ok && guess == rank {
			return true
		}
	}
	return false
}

// alive reports whether a process of a start is connected.
func (s *Starts) alive(st *start) bool {
	for session := range st.held {
		if _, here := s.here[session]; here {
			return true
		}
	}
	return false
}

// rivals counts the ranks that a process wants and another has that is still connected.
func (s *Starts) rivals(st *start, c *Claim) (n uint64) {
	if st == nil || c.Guess {
		return 0
	}
	for _, w := range c.Wants {
		owner, ok := st.owner(&w)
		if _, here := s.here[owner]; ok && here && owner != c.Session {
			n++
		}
	}
	return n
}

// begin makes a new start.
func (s *Starts) begin(c *Claim, again bool) *start {
	run := c.Name.Text
	if c.Name.Local {
		run = c.Host + "-" + stamp(c)
	} else if again {
		run = runname.Again(run, stamp(c))
	}
	for s.runs[run] != nil {
		run += fmt.Sprintf("-%08x", uint32(c.Session))
	}
	return s.add(c.Name.Text, run)
}

// stamp tells the starts of one name apart: by the world communicator, which all hosts have, or by the first process.
func stamp(c *Claim) string {
	if c.World.Comm != 0 && c.Name.From != FromNCCL {
		return ncclName(c.World)
	}
	return fmt.Sprintf("%s-%08x", c.Started.UTC().Format("20060102T150405"), uint32(c.Session))
}

// add adds a start, the newest of its name.
func (s *Starts) add(name, run string) *start {
	st := &start{
		name: name, run: run, ranks: map[int64]uint64{}, devices: map[string]int64{}, owners: map[string]uint64{}, held: map[uint64][]int64{},
		guesses: map[uint64]int64{},
	}
	s.newest[name], s.runs[run] = st, st
	s.order = append(s.order, st)
	for len(s.order) > maxStarts || s.ranks > maxRanks && len(s.order) > 1 {
		s.forget()
	}
	return st
}

// forget forgets the oldest start.
func (s *Starts) forget() {
	old := s.order[0]
	s.order = s.order[1:]
	s.ranks -= len(old.ranks) + len(old.guesses)
	if s.newest[old.name] == old {
		delete(s.newest, old.name)
	}
	delete(s.runs, old.run)
	for session := range old.held {
		delete(s.sessions, session)
	}
}

// claim gives a session a rank of a start.
func (s *Starts) claim(st *start, session uint64, w *Want) (rank int64, own bool) {
	rank = s.rankOf(st, w)
	if w.Any {
		st.owners[w.Device] = session
	}
	if owner, taken := st.ranks[rank]; taken {
		return rank, owner == session
	}
	if len(st.held[session]) >= maxSessionRanks {
		return rank, false
	}
	s.take(st, session, rank)
	return rank, true
}

// rankOf is the rank that a session wants.
func (s *Starts) rankOf(st *start, w *Want) int64 {
	if w.Any {
		return s.place(st, w.Device)
	}
	return w.Rank
}

// guess notes the rank that a session without steps guesses. It holds none.
func (s *Starts) guess(st *start, session uint64, rank int64) {
	if _, again := st.guesses[session]; !again {
		s.ranks++
	}
	st.guesses[session] = rank
}

// take notes that a session is a rank.
func (s *Starts) take(st *start, session uint64, rank int64) {
	st.ranks[rank] = session
	st.held[session] = append(st.held[session], rank)
	s.ranks++
}

// enter notes that a session is of a start.
func (s *Starts) enter(st *start, session uint64) {
	if _, held := st.held[session]; !held {
		st.held[session] = nil // it holds no rank yet
	}
	s.sessions[session] = st
}

// place is the rank of a device whose place on the host is not known: the lowest that is free, in order of the names of all
// devices that connected processes of the start have.
func (s *Starts) place(st *start, device string) int64 {
	if rank, ok := st.devices[device]; ok {
		return rank
	}
	var lists [][]string
	for _, p := range s.here {
		if p.name == st.name {
			lists = append(lists, p.devices)
		}
	}
	slices.SortFunc(lists, func(a, b []string) int { return slices.Compare(a, b) })
	lists = append(lists, []string{device})
	next := int64(0)
	for _, d := range slices.Concat(lists...) {
		if _, ok := st.devices[d]; ok || len(st.devices) >= maxStartDevices && d != device {
			continue
		}
		for st.taken(next) {
			next++
		}
		st.devices[d] = next
	}
	return st.devices[device]
}

// taken reports whether a rank is a session's, or kept for a device.
func (st *start) taken(rank int64) bool {
	if _, ok := st.ranks[rank]; ok {
		return true
	}
	for _, r := range st.devices {
		if r == rank {
			return true
		}
	}
	return false
}
