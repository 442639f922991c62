package cause

import (
	"math/bits"

	"github.com/kernhes/kernhes/internal/digest"
)

// maxKinds bounds the kinds of work of a run whose norms are known.
const maxKinds = 4096

// How fast a norm follows: down at once, up slowly. So it is what the fastest ranks take, and a slow rank moves it little.
const (
	down = 0.5
	up   = 0.01
)

// A work is steps whose kernels take about equally long: they run one program on about as many tokens. The contexts matter to few
// kernels only, so they do not matter to the median.
type work struct {
	program string
	tokens  int
}

// A norm is what steps of one kind of work take.
type norm struct {
	kernel float64 // ns: the median of a step's compute kernels
	idle   float64 // ns: of a step
}

// norms are those of a run.
type norms map[work]*norm

// workOf is the kind of work of a step. Tokens are told apart by eighths of an octave.
func workOf(s *digest.Step) work { return work{s.Program, part(s.Tokens, 3)} }

// part is the octave of a number, and the part of it: 2 to the power of fine parts an octave.
func part(n int64, fine int) int {
	if n <= 0 {
		return -1
	}
	octave := bits.Len64(uint64(n)) - 1
	rest := n - 1<<octave
	if octave >= fine {
		return octave<<fine | int(rest>>(octave-fine))
	}
	return octave<<fine | int(rest<<(fine-octave))
}

// take notes what a step took.
func (n norms) take(s *digest.Step) {
	key := workOf(s)
	at := n[key]
	kernel, idle := float64(s.Typical), float64(s.Idle)
	if at == nil {
		if len(n) >= maxKinds {
			clear(n)
		}
		n[key] = &norm{kernel, idle}
		return
	}
	follow(&at.kernel, kernel)
	follow(&at.idle, idle)
}

func follow(norm *float64, x float64) {
	if x < *norm {
		*norm += down * (x - *norm)
	} else {
		*norm += up * (x - *norm)
	}
}

// slow is the part of a step's compute by which its kernels are slower than the norm: 0 to 1.
func (n norms) slow(s *digest.Step) float64 {
	at := n[workOf(s)]
	if at == nil || float64(s.Typical) <= at.kernel {
		return 0
	}
	return 1 - at.kernel/float64(s.Typical)
}

// usualIdle is how long a step of this kind is without a kernel, in ns.
func (n norms) usualIdle(s *digest.Step) int64 {
	if at := n[workOf(s)]; at != nil {
		return int64(at.idle)
	}
	return 0
}
