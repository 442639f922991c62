// Package median turns a series of numbers into the running median of the last ones.
package median

import "slices"

// Window is of how many numbers a median is, at most.
const Window = 63

// A Running is the median of the last numbers of a series: 1 KiB.
type Running struct {
	n      int // seen; the last ones are in recent
	recent [Window]uint64
	sorted [Window]uint64
}

// Seen is how many numbers there were.
func (m *Running) Seen() int { return m.n }

// Middle is the median: of an even number of numbers the upper one of the two in the middle; 0 of none.
func (m *Running) Middle() uint64 { return m.sorted[min(m.n, Window)/2] }

// Add takes the next number.
func (m *Running) Add(v uint64) {
	held := min(m.n, Window)
	if held == Window {
		i, _ := slices.BinarySearch(m.sorted[:], m.recent[m.n%Window])
		copy(m.sorted[i:], m.sorted[i+1:])
		held--
	}
	i, _ := slices.BinarySearch(m.sorted[:held], v)
	copy(m.sorted[i+1:held+1], m.sorted[i:held])
	m.sorted[i] = v
	m.recent[m.n%Window] = v
	m.n++
}
