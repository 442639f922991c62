package model

// Settled counts kernel records of which something became without a step. Each is in one of these.
type Settled struct {
	Outside   uint64 `json:"outside"`
	Late      uint64 `json:"late"`
	Invalid   uint64 `json:"invalid"`
	Duplicate uint64 `json:"duplicate"`
}

// Add adds o.
func (s *Settled) Add(o Settled) {
	s.Outside += o.Outside
	s.Late += o.Late
	s.Invalid += o.Invalid
	s.Duplicate += o.Duplicate
}

// Less is s without o.
func (s Settled) Less(o Settled) Settled {
	return Settled{s.Outside - o.Outside, s.Late - o.Late, s.Invalid - o.Invalid, s.Duplicate - o.Duplicate}
}

// Outcomes counts what became of kernel records. Each is in one of these.
type Outcomes struct {
	InSteps uint64 `json:"in_steps"`
	Settled
}

// Sum is all records of which something became.
func (o Outcomes) Sum() uint64 { return o.InSteps + o.Outside + o.Late + o.Invalid + o.Duplicate }
