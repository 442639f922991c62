package archive

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// A journal is what a part needs to be finished by another process: the row groups that its tables had when they were
// last synced, then each chunk that was taken since. It is a row of records:
//
//	u8 kind, 3 bytes of 0, u32 length, u32 CRC-32C of all but itself, payload
//
//	1 head    JSON, once, first
//	2 group   JSON: a parquet.Group of a synced table
//	3 chunk   a chunk's body
//
// Numbers are little-endian. Head and groups are written into a new file, which then takes the old one's name, so they are
// whole or not there. Chunks are appended and synced before they count as taken; what follows the last whole record
// never counted.
type journal struct {
	name string
	file File
	end  int64 // of what counts, bytes
	base int64 // of the chunks: where the groups end
	buf  []byte
}

const (
	headRecord  = 1
	groupRecord = 2
	chunkRecord = 3

	recordHead     = 12
	journalVersion = 1
	// maxGroupRecord is the longest record of a group that is read: its statistics are bounded, its sources are chunks' texts.
	maxGroupRecord = 64 << 20
)

// A head is a journal's first record.
type head struct {
	Version int `json:"version"`
}

// errJournal is why a journal cannot be read; it never will be.
var errJournal = errors.New("not a journal that this version reads")

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

// newJournal writes a journal that holds groups and no chunks, in place of one of that name. The folder is synced.
func newJournal(disk Disk, name string, groups []parquet.Group) (*journal, error) {
	file, err := disk.Create(name + ".new")
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", name, err)
	}
	j := &journal{name: name, file: file}
	if err = j.begin(groups); err == nil {
		err = disk.Rename(name+".new", name)
	}
	if err == nil {
		err = disk.Sync()
	}
	if err != nil {
		_ = file.Close()
		_ = disk.Remove(name + ".new") // if it still has that name
		return nil, fmt.Errorf("journal %s: %w", name, err)
	}
	return j, nil
}

// begin writes and syncs all that comes before chunks.
func (j *journal) begin(groups []parquet.Group) error {
	w := bufio.NewWriterSize(io.NewOffsetWriter(j.file, 0), 1<<16)
	put := func(kind byte, v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		j.buf = appendRecord(j.buf[:0], kind, b)
		j.end += int64(len(j.buf))
		_, err = w.Write(j.buf)
		return err
	}
	if err := put(headRecord, head{journalVersion}); err != nil {
		return err
	}
	for i := range groups {
		if err := put(groupRecord, &groups[i]); err != nil {
			return err
		}
	}
	j.base = j.end
	if err := w.Flush(); err != nil {
		return err
	}
	return j.file.Sync()
}

// append adds bodies of chunks, all or none, and returns when they will outlive a power loss. After an error that is
// errUnsure none can be appended any more.
func (j *journal) append(bodies [][]byte) error {
	j.buf = j.buf[:0]
	for _, b := range bodies {
		j.buf = appendRecord(j.buf, chunkRecord, b)
	}
	_, err := j.file.WriteAt(j.buf, j.end)
	if err != nil {
		if cut := j.file.Truncate(j.end); cut != nil {
			return fmt.Errorf("journal %s: %w: %w", j.name, errUnsure, errors.Join(err, cut))
		}
		return fmt.Errorf("journal %s: %w", j.name, err)
	}
	// What a failed sync leaves on the disk is unknown: a second one may succeed without having written.
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("journal %s: %w: %w", j.name, errUnsure, errors.Join(err, j.file.Truncate(j.end)))
	}
	j.end += int64(len(j.buf))
	if cap(j.buf) > 8<<20 {
		j.buf = nil
	}
	return nil
}

// errUnsure is why a journal is given up: what it holds after its end is not known.
var errUnsure = errors.New("its end is not known")

func appendRecord(to []byte, kind byte, payload []byte) []byte {
	at := len(to)
	to = append(to, kind, 0, 0, 0)
	to = le.AppendUint32(to, uint32(len(payload)))
	to = le.AppendUint32(to, recordSum(to[at:at+8], payload))
	return append(to, payload...)
}

func recordSum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// A reading is what readJournal hands over, in the journal's order.
type reading struct {
	group func(parquet.Group) error
	chunk func(body []byte) error // valid during the call
	skip  func(bytes int64)       // so many are no record, and a whole chunk follows; nil: not counted
}

// all is no limit to what of a journal counts.
const all = 1<<63 - 1

// readJournal reads a journal up to its last whole record, but not beyond limit bytes. It returns how much that was. What follows the
// last whole record was torn; damage that a whole chunk follows is skipped.
func readJournal(f io.ReaderAt, limit int64, to reading) (end int64, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, limit), 1<<16)
	var buf []byte
	base := int64(0) // where the groups end
	for first := true; ; first = false {
		kind, payload, err := readRecord(r, &buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return end, err
		}
		known := kind == headRecord && first || (kind == groupRecord && base == end || kind == chunkRecord) && !first
		if err != nil || !known {
			if first {
				return 0, errJournal
			}
			next, err := nextChunk(f, end+1, limit, &buf)
			if err != nil || next < 0 {
				return end, err
			}
			if to.skip != nil {
				to.skip(next - end)
			}
			end = next
			base = -1 // no group is read any more
			r.Reset(io.NewSectionReader(f, end, limit-end))
			continue
		}
		end += recordHead + int64(len(payload))
		switch kind {
		case headRecord:
			var h head
			if err := json.Unmarshal(payload, &h); err != nil || h.Version != journalVersion {
				return 0, fmt.Errorf("version %d: %w", h.Version, errJournal)
			}
			base = end
		case groupRecord:
			var g parquet.Group
			if err := json.Unmarshal(payload, &g); err != nil {
				return 0, fmt.Errorf("row group at byte %d: %w: %w", end, errJournal, err)
			}
			base = end
			if err := to.group(g); err != nil {
				return end, err
			}
		case chunkRecord:
			if err := to.chunk(payload); err != nil {
				return end, err
			}
		}
	}
}

// searched is how much of a journal is looked through for a chunk at a time: a record may lie across two of them.
const searched = 1 << 20

// maxTried bounds the bytes that are read as if they were records: damage may hold as many beginnings of records as it has bytes.
const maxTried = 4 << 30

// nextChunk is where the first whole chunk from a place on lies; below 0: there is none. A record of another kind than a chunk is of no use
// there: groups come before all chunks.
func nextChunk(f io.ReaderAt, from, limit int64, buf *[]byte) (at int64, err error) {
	window := make([]byte, searched)
	tried := int64(0)
	for from < limit {
		n, err := io.NewSectionReader(f, from, limit-from).ReadAt(window, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return -1, err
		}
		for i := 0; i+recordHead <= n; i++ {
			h := window[i : i+recordHead]
			if h[0] != chunkRecord || h[1]|h[2]|h[3] != 0 || uint64(le.Uint32(h[4:])) > chunk.LimitBytes {
				continue
			}
			if tried += int64(le.Uint32(h[4:])); tried > maxTried {
				return -1, nil
			}
			record := bufio.NewReader(io.NewSectionReader(f, from+int64(i), limit-from-int64(i)))
			if _, _, err := readRecord(record, buf); err == nil {
				return from + int64(i), nil
			} else if !errors.Is(err, io.EOF) {
				return -1, err
			}
		}
		if n < searched {
			return -1, nil
		}
		from += int64(n - recordHead + 1)
	}
	return -1, nil
}

// readRecord reads a record into buf; io.EOF: there is no whole one.
func readRecord(r *bufio.Reader, buf *[]byte) (kind byte, payload []byte, err error) {
	var h [recordHead]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, short(err)
	}
	kind = h[0]
	n := uint64(le.Uint32(h[4:8]))
	if n > maxGroupRecord || kind == chunkRecord && n > chunk.LimitBytes {
		return 0, nil, io.EOF
	}
	if uint64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	payload = (*buf)[:n]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, short(err)
	}
	if recordSum(h[:8], payload) != le.Uint32(h[8:]) {
		return 0, nil, io.EOF
	}
	return kind, payload, nil
}

// short makes io.EOF of what ended too early.
func short(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
