package behaviour

// A Behaviour is what the times of a kernel show.
type Behaviour uint8

// Behaviours.
const (
	Unclear Behaviour = iota // arrivals vary too little
	Alone                    // its time does not depend on when other ranks enter
	Meeting                  // ranks leave together, whenever they enter
)

// Names are the behaviours as metrics have them.
var Names = [...]string{Unclear: "unclear", Alone: "alone", Meeting: "meeting"}

// What makes a meeting: for each ns that a rank arrives later, its time is shorter by nearly one. Compute is near 0.
const (
	steepest   = -0.7 // slope
	determined = 0.5  // r²
	variation  = 200  // ns: standard deviation of arrivals, below which nothing can be said
)

// A regression is of the difference of two ranks' durations on the difference of their arrivals, in ns.
type regression struct{ x, y, xx, xy, yy float64 }

func (r *regression) add(x, y float64) {
	r.x, r.y, r.xx, r.xy, r.yy = r.x+x, r.y+y, r.xx+x*x, r.xy+x*y, r.yy+y*y
}

// says reads n observations.
func (r *regression) says(n float64) Behaviour {
	xx, xy, yy := r.xx-r.x*r.x/n, r.xy-r.x*r.y/n, r.yy-r.y*r.y/n
	switch {
	case xy <= steepest*xx && xy*xy >= determined*xx*yy && xx > n:
		return Meeting
	case xx >= n*variation*variation:
		return Alone
	}
	return Unclear
}
