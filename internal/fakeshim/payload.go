package fakeshim

import "github.com/kernhes/kernhes/internal/krec"

type schemaKey struct {
	domain uint32
	id     uint64
}

// A schema is what was registered under one id.
type schema struct {
	size  uint32
	names []uint64 // of other schemas, in entries
	body  []byte
	sent  bool
}

// register keeps a schema until a payload needs it.
func (s *sender) register(f *krec.Schema) {
	var entries []byte
	k := &schema{size: f.Size}
	for _, e := range f.Entries {
		entries = append64(entries, e.Type, e.Flags, e.Offset, e.Detail)
		entries = padded(append32(entries, uint32(len(e.Name)), 0), e.Name)
		if f.Type != krec.SchemaEnum {
			k.names = append(k.names, e.Type)
		}
	}
	k.body = append32(append64(nil, f.ID), f.Domain, f.Size, f.Pack, uint32(len(entries)), uint32(len(f.Entries)), f.Type)
	k.body = append(k.body, entries...)
	s.schemas[schemaKey{f.Domain, f.ID}] = k
}

// announce sends a schema, and before it those that its entries name.
func (s *sender) announce(thread, domain uint32, k *schema) {
	if k == nil || k.sent {
		return
	}
	k.sent = true
	for _, id := range k.names {
		s.announce(thread, domain, s.schemas[schemaKey{domain, id}])
	}
	s.event(evSchema, thread, k.body)
}

// payload sends what came with a push or a pop, if its schema was registered. depth is that of the range, itself counted.
func (s *sender) payload(site, thread, domain, depth uint32, p *krec.Payload) {
	if p == nil {
		return
	}
	k := s.schemas[schemaKey{domain, p.Schema}]
	if k == nil {
		return
	}
	s.announce(thread, domain, k)
	data := p.Data[:min(len(p.Data), maxPayload)]
	if k.size > 0 {
		data = data[:min(len(data), int(k.size))]
	}
	body := append64(append32(append64(nil, 0), domain, depth), p.Schema)
	body = append32(body, uint32(len(data)), uint32(len(p.Data)), site, 0)
	s.event(evPayload, thread, padded(body, string(data)))
}
