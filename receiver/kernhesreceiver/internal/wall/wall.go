// Package wall counts steps by their wall time.
package wall

import (
	"fmt"
	"slices"
	"time"

	expo "github.com/lightstep/go-expohisto/structure"
)

// maxSize is how many buckets an exponential histogram has, as OpenTelemetry's SDKs have by default: over the times of one kind of
// step, a quantile is off by 1% or so; over five decades by 4%.
const maxSize = 160

// maxBounds is how many fixed bounds there may be: each is a series of each label set.
const maxBounds = 200

// Default are inclusive upper bounds in ns: four a doubling where decode steps lie (1 to 64 ms), coarser outside.
var Default = []uint64{
	250e3, 500e3, 750e3, 1e6, 1.25e6, 1.5e6, 1.75e6, 2e6, 2.5e6, 3e6, 3.5e6, 4e6, 5e6, 6e6, 7e6, 8e6, 10e6, 12e6, 14e6, 16e6, 20e6, 24e6, 28e6, 32e6,
	40e6, 48e6, 56e6, 64e6, 80e6, 100e6, 125e6, 150e6, 200e6, 250e6, 300e6, 400e6, 500e6, 600e6, 800e6, 1e9, 2e9, 5e9, 10e9, 30e9,
}

// A Layout says how steps are counted. It does not change while counts of it are in use.
type Layout struct {
	Exponential bool
	Bounds      []uint64 // ns, ascending; of fixed buckets
}

// Fixed is the layout with the bounds by default.
var Fixed = &Layout{Bounds: Default}

// New returns a layout of the bounds that a user gives; none: those by default.
func New(exponential bool, bounds []time.Duration) (*Layout, error) {
	l := &Layout{Exponential: exponential, Bounds: Default}
	if len(bounds) == 0 {
		return l, nil
	}
	if exponential {
		return nil, fmt.Errorf("bounds: an exponential histogram has none")
	}
	if len(bounds) > maxBounds {
		return nil, fmt.Errorf("bounds: %d of them: want %d at most", len(bounds), maxBounds)
	}
	l.Bounds = nil
	for i, b := range bounds {
		if b <= 0 || i > 0 && b <= bounds[i-1] {
			return nil, fmt.Errorf("bounds: %v at place %d: want times above 0, each above the one before", b, i+1)
		}
		l.Bounds = append(l.Bounds, uint64(b))
	}
	return l, nil
}

// Counts are steps by wall time. Those without a layout have the fixed one.
type Counts struct {
	Layout *Layout
	Fixed  []uint64      // up to each bound, then above; nil: exponential, or no step yet
	Expo   *expo.Float64 // of seconds; nil: fixed, or no step yet
}

// Add counts a step of so many ns.
func (c *Counts) Add(ns uint64) {
	if c.Layout == nil {
		c.Layout = Fixed
	}
	if c.Layout.Exponential {
		if c.Expo == nil {
			c.Expo = expo.NewFloat64(expo.NewConfig(expo.WithMaxSize(maxSize)))
		}
		c.Expo.Update(float64(ns) / 1e9)
		return
	}
	if c.Fixed == nil {
		c.Fixed = make([]uint64, len(c.Layout.Bounds)+1)
	}
	i, _ := slices.BinarySearch(c.Layout.Bounds, ns)
	c.Fixed[i]++
}

// Clone is a copy that later steps do not change.
func (c *Counts) Clone() Counts {
	d := Counts{Layout: c.Layout, Fixed: slices.Clone(c.Fixed)}
	if c.Expo != nil {
		d.Expo = expo.NewFloat64(expo.NewConfig(expo.WithMaxSize(maxSize)))
		c.Expo.CopyInto(d.Expo)
	}
	return d
}
