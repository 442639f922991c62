// Package load turns arriving requests into the batches that each data-parallel rank computes: a
// serving loop, open at its entry.
package load

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// Settings say which requests come.
type Settings struct {
	Rate       float64       // requests a second, of all replicas
	Burst      int           // requests that come at once, each BurstEvery
	BurstEvery time.Duration // 0: no bursts
	Prompt     int           // tokens, median
	Output     int           // tokens, mean
	Chunk      int           // tokens of a prefill at most
	Sequences  int           // of a replica at once, at most
	Mixed      bool          // prompts and running requests go into one batch
}

// Defaults are a load under which ranks both prefill and decode.
func Defaults() Settings {
	return Settings{Rate: 6, Prompt: 6000, Output: 120, Chunk: 32768, Sequences: 64, BurstEvery: 10 * time.Second, Burst: 6}
}

// A request is one on its way through a replica.
type request struct {
	prompt int // tokens that are still to be computed
	kv     int // tokens that are
	left   int // tokens of output to come
}

// A replica is the queue and the running requests of one data-parallel rank.
type replica struct {
	waiting []*request
	running []*request
	turn    bool // a prefill was the last: running requests come first
	batch   program.Batch
	chunk   *request // what the batch computes of a prompt
}

// A Server is the serving loop of all replicas. It is not safe for concurrent use.
type Server struct {
	set      Settings
	schedule fault.Schedule
	rank     func(replica int) int // a rank of it, for the schedule
	rng      *rand.Rand
	replicas []*replica
	arrival  time.Duration // of the next request
	burst    time.Duration // next
	turn     int
}

// New is a Server of so many replicas.
func New(set Settings, schedule fault.Schedule, seed uint64, replicas int, rank func(replica int) int) *Server {
	s := &Server{set: set, schedule: schedule, rank: rank, rng: rand.New(rand.NewPCG(seed, 0)), burst: set.BurstEvery}
	for range replicas {
		s.replicas = append(s.replicas, &replica{})
	}
	return s
}

// Next is what each replica computes next, at a time since the start. It is nil where no replica
// has anything; then the next request comes at the time that is returned.
func (s *Server) Next(now time.Duration) ([]program.Batch, time.Duration) {
	s.arrive(now)
	batches := make([]program.Batch, len(s.replicas))
	busy := false
	for i, r := range s.replicas {
		r.plan(s, i, now)
		batches[i] = r.batch
		busy = busy || r.batch.Program != "dummy"
	}
	if busy {
		return batches, now
	}
	next := s.arrival
	if s.set.BurstEvery > 0 {
		next = min(next, s.burst)
	}
	return nil, next
}

// arrive queues what has come by now.
func (s *Server) arrive(now time.Duration) {
	for s.arrival <= now {
		if s.set.Rate <= 0 {
			s.arrival = math.MaxInt64
			break
		}
		s.request(now)
		rate := s.set.Rate * s.schedule.Factor("more_requests", -1, now) / s.schedule.Factor("fewer_requests", -1, now)
		s.arrival += time.Duration(s.rng.ExpFloat64() / rate * 1e9)
	}
	for s.set.BurstEvery > 0 && s.burst <= now {
		for range s.set.Burst {
			s.request(now)
		}
		s.burst += s.set.BurstEvery
	}
}

// request gives the next replica in turn a request.
func (s *Server) request(now time.Duration) {
	i := s.turn % len(s.replicas)
	s.turn++
	tokens := float64(s.set.Prompt) * math.Exp(0.8*s.rng.NormFloat64())
	tokens *= s.schedule.Factor("longer_prompts", -1, now) * s.schedule.Factor("skewed_contexts", s.rank(i), now)
	output := 1 + int(s.rng.ExpFloat64()*float64(s.set.Output))
	r := s.replicas[i]
	r.waiting = append(r.waiting, &request{prompt: min(max(1, int(tokens)), 1<<20), left: min(output, 8192)})
}

// plan says what a replica computes next: prompts and running requests by turns, or together.
func (r *replica) plan(s *Server, i int, now time.Duration) {
	r.chunk = nil
	most := int(float64(s.set.Sequences) * s.schedule.Factor("bigger_batches", s.rank(i), now))
	prompt := len(r.waiting) > 0 && len(r.running) < most && (len(r.running) == 0 || !r.turn)
	mixed := s.set.Mixed || len(s.schedule.On("new_program", -1, now)) > 0
	kv := 0
	for _, q := range r.running {
		kv += q.kv + 1
	}
	switch {
	case prompt && mixed && len(r.running) > 0:
		r.chunk = r.waiting[0]
		n := min(r.chunk.prompt, max(1, s.set.Chunk/8))
		r.batch = program.Batch{Program: "mixed", Seqs: 1 + len(r.running), Tokens: n + len(r.running), KV: kv + r.chunk.kv + n}
	case prompt:
		r.chunk = r.waiting[0]
		n := min(r.chunk.prompt, s.set.Chunk)
		r.batch = program.Batch{Program: "prefill", Seqs: 1, Tokens: n, KV: r.chunk.kv + n}
	case len(r.running) > 0:
		r.batch = program.Batch{Program: "decode_batch", Seqs: len(r.running), Tokens: program.Bucket(len(r.running)), KV: kv}
	default:
		r.batch = program.Batch{Program: "dummy"}
	}
	r.turn = r.chunk != nil
}

// Done takes the batches of the last Next as computed.
func (s *Server) Done() {
	for _, r := range s.replicas {
		if r.chunk != nil {
			n := r.batch.Tokens
			if r.batch.Program == "mixed" {
				n -= len(r.running)
			}
			r.chunk.kv += n
			if r.chunk.prompt -= n; r.chunk.prompt == 0 {
				r.waiting = r.waiting[1:]
			}
		}
		if r.batch.Program == "decode_batch" || r.batch.Program == "mixed" {
			kept := r.running[:0]
			for _, q := range r.running {
				q.kv++
				if q.left--; q.left > 0 {
					kept = append(kept, q)
				}
			}
			r.running = kept
		}
		if r.chunk != nil && r.chunk.prompt == 0 {
			r.running = append(r.running, r.chunk)
		}
	}
}
