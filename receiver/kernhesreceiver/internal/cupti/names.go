package cupti

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Name is a string of the session: a kernel's name with its class, or a range's text.
type Name struct {
	Text  string
	Class span.Class
	Fused bool // communicates and computes
}

// unknown stands for kernel names that the shim could not give.
var unknown = &Name{}

// Strings takes a STRINGS body. Ids are given once, so a second text for one is ignored.
func (j *Joiner) Strings(body []byte) error {
	return wire.Strings(body, func(id uint32, text []byte) {
		if j.names[id] != nil {
			return
		}
		if len(j.names) >= j.limits.Names || j.text+len(text) > averageName*j.limits.Names {
			j.Refused.Names++
			return
		}
		j.text += len(text)
		s := wire.Text(text)
		class, fused := j.classify(s)
		j.names[id] = &Name{s, class, fused}
	})
}

// Name is the kernel name of an id: empty where it is not known.
func (j *Joiner) Name(id uint32) *Name {
	if n, ok := j.names[id]; ok {
		return n
	}
	return unknown
}
