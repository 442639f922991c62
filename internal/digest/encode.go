package digest

import (
	"encoding/binary"

	"github.com/kernhes/kernhes/internal/chunk"
)

// EventName and Version mark the log record of a digest.
const (
	EventName = "kernhes.digest"
	Version   = 1
)

const magic = "KHDG"

// A Record is the steps of one rank in a digest.
type Record struct {
	Identity chunk.Identity // run, host, model, rank, session and device count
	Steps    []*Step
	Sums     []*Sums
}

// An encoder writes a Record.
type encoder struct {
	b      []byte
	texts  map[string]uint64
	order  []string
	shapes map[*Shape]uint64
	list   []*Shape
}

// Append appends a record to b: DIGEST.md has the format.
func Append(b []byte, r *Record) []byte {
	e := &encoder{texts: map[string]uint64{}, shapes: map[*Shape]uint64{}}
	for _, s := range r.Steps {
		e.shape(s.Shape)
	}
	for _, s := range r.Sums {
		e.shape(s.Shape)
	}
	e.uint(uint64(len(e.list)))
	for _, s := range e.list {
		e.putShape(s)
	}
	e.uint(uint64(len(r.Sums)))
	for _, s := range r.Sums {
		e.uint(e.shapes[s.Shape])
		e.id(s.Program)
		e.uint(s.Steps)
		for _, ns := range s.NS {
			e.uint(ns)
		}
	}
	e.uint(uint64(len(r.Steps)))
	for _, s := range r.Steps {
		e.step(s)
	}
	body := e.b
	e.b = append(b, magic...)
	e.b = append(e.b, Version, 0, 0, 0)
	e.int(r.Identity.Rank)
	e.uint(uint64(r.Identity.Device))
	e.uint(r.Identity.Session)
	for _, t := range []string{r.Identity.Run, r.Identity.Host, r.Identity.Model} {
		e.text(t)
	}
	e.uint(uint64(len(e.order)))
	for _, t := range e.order {
		e.text(t)
	}
	return append(e.b, body...)
}

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }

func (e *encoder) int(v int64) { e.uint(uint64(v)<<1 ^ uint64(v>>63)) }

func (e *encoder) text(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) id(s string) {
	if s == "" {
		e.uint(0)
		return
	}
	id := e.texts[s]
	if id == 0 {
		e.order = append(e.order, s)
		id = uint64(len(e.order))
		e.texts[s] = id
	}
	e.uint(id)
}

func (e *encoder) shape(s *Shape) {
	if _, ok := e.shapes[s]; !ok {
		e.shapes[s] = uint64(len(e.list))
		e.list = append(e.list, s)
	}
}

func (e *encoder) putShape(s *Shape) {
	e.b = binary.LittleEndian.AppendUint64(e.b, s.Work)
	e.uint(uint64(s.Kernels))
	e.uint(uint64(len(s.Sites)))
	last := 0
	for i := range s.Sites {
		at := &s.Sites[i]
		e.uint(uint64(at.Position - last))
		last = at.Position
		e.id(at.Call)
		e.id(at.Name)
		e.id(at.Group)
		e.b = append(e.b, byte(at.Kind))
		e.uint(at.Bytes)
	}
	e.uint(uint64(len(s.Families)))
	for _, f := range s.Families {
		e.id(f)
	}
}

func (e *encoder) step(s *Step) {
	flags := byte(0)
	for i, on := range []bool{s.Pairs, s.Complete, s.Graph} {
		if on {
			flags |= 1 << i
		}
	}
	e.b = append(e.b, flags)
	e.uint(e.shapes[s.Shape])
	e.id(s.Program)
	for _, v := range []int64{s.Seq, s.Seqs, s.Tokens, s.KV} {
		e.int(v)
	}
	e.uint(s.Start)
	e.int(int64(s.End - s.Start))
	for _, v := range []uint64{s.Compute, s.Idle, s.Foreign, s.Typical} {
		e.uint(v)
	}
	end, until := s.Start, uint64(0)
	for i := range s.Calls {
		c := &s.Calls[i]
		e.int(int64(c.Start - end))
		e.uint(c.Dur)
		e.int(int64(c.Before - until))
		e.uint(c.Until - c.Before)
		end, until = c.End(), c.Until
	}
}
