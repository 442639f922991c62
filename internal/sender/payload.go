package sender

// SchemaEnum is the type of a schema that is an enumeration; its fields are values.
const SchemaEnum = 0x80

const maxPayload = 512

// A Schema says how payloads with an id are laid out.
type Schema struct {
	Domain uint32
	ID     uint64 // NVTX's
	Size   uint32 // of a payload; 0: not fixed
	Pack   uint32
	Type   uint32 // NVTX's schema type, or SchemaEnum
	Fields []Field
}

// A Field is one entry of a schema.
type Field struct {
	Type   uint64 // NVTX's entry type, or the id of another schema
	Flags  uint64
	Offset uint64
	Detail uint64
	Name   string
}

type schemaKey struct {
	domain uint32
	id     uint64
}

// A schema is what was registered under one id.
type schema struct {
	size  uint32
	names []uint64 // of other schemas, in fields
	body  []byte
	sent  bool
}

// Register keeps a schema until a payload needs it.
func (s *Sender) Register(f Schema) {
	var fields []byte
	k := &schema{size: f.Size}
	for _, e := range f.Fields {
		fields = append64(fields, e.Type, e.Flags, e.Offset, e.Detail)
		fields = padded(append32(fields, uint32(len(e.Name)), 0), e.Name)
		if f.Type != SchemaEnum {
			k.names = append(k.names, e.Type)
		}
	}
	k.body = append32(append64(nil, f.ID), f.Domain, f.Size, f.Pack, uint32(len(fields)), uint32(len(f.Fields)), f.Type)
	k.body = append(k.body, fields...)
	if s.schemas == nil {
		s.schemas = map[schemaKey]*schema{}
	}
	s.schemas[schemaKey{f.Domain, f.ID}] = k
}

// announce sends a schema, and before it those that its fields name.
func (s *Sender) announce(thread, domain uint32, k *schema) {
	if k == nil || k.sent {
		return
	}
	k.sent = true
	for _, id := range k.names {
		s.announce(thread, domain, s.schemas[schemaKey{domain, id}])
	}
	s.event(evSchema, 16+len(k.body), thread)
	from := len(s.events) - eventHead
	s.events = append(s.events, k.body...)
	s.pinEvent(s.events[from:])
	s.full()
}

// PushPayload sends what came with the range that was pushed last on a thread, if its schema was
// registered; depth is that of the range, itself counted.
func (s *Sender) PushPayload(thread, domain, depth uint32, schema uint64, data []byte) {
	s.payload(evPush, thread, domain, depth, schema, data)
}

// PopPayload sends what came with the range that is popped next on a thread.
func (s *Sender) PopPayload(thread, domain, depth uint32, schema uint64, data []byte) {
	s.payload(evPop, thread, domain, depth, schema, data)
}

func (s *Sender) payload(site, thread, domain, depth uint32, id uint64, data []byte) {
	k := s.schemas[schemaKey{domain, id}]
	if k == nil {
		return
	}
	s.announce(thread, domain, k)
	sent := data[:min(len(data), maxPayload)]
	if k.size > 0 {
		sent = sent[:min(len(sent), int(k.size))]
	}
	s.event(evPayload, 56+(len(sent)+7)&^7, thread)
	s.events = append64(append32(append64(s.events, 0), domain, depth), id)
	s.events = padded(append32(s.events, uint32(len(sent)), uint32(len(data)), site, 0), string(sent))
	s.full()
}
