package pages

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/stretchr/testify/require"
)

// numbers reads what a page of DELTA_BINARY_PACKED holds, by parquet-go.
func numbers(t testing.TB, d *Delta) []int64 {
	t.Helper()
	var by delta.BinaryPackedEncoding
	got, err := by.DecodeInt64(nil, d.Append(nil))
	require.NoError(t, err)
	require.Len(t, got, d.Rows())
	return got
}

func TestDeltaByHand(t *testing.T) {
	d := Delta{Grain: 1}
	d.Reset()
	d.Add([]uint64{7, 5, 3, 1, 2, 3, 4, 5})
	// The example of parquet-format's Encodings.md: differences -2 -2 -2 1 1 1 1, the least -2, above it 0 0 0 3 3 3 3 of
	// two bits each.
	require.Equal(t, []byte{128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b11000000, 0b00111111, 0, 0, 0, 0, 0, 0}, d.Append(nil))
}

// TestDeltaComesBack adds numbers and runs by turns, of all widths, at each phase of a block.
func TestDeltaComesBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 400 {
		d := Delta{Grain: []int{1, 8}[trial%2]}
		d.Reset()
		var want []int64
		for range r.IntN(12) {
			n := []int{0, 1, 2, 31, 32, 33, 127, 128, 129, 1000}[r.IntN(10)]
			if kind := r.IntN(3); kind == 2 && n > 0 {
				v := int64(r.Uint64())
				steps := make([]int64, n-1)
				want = append(want, v)
				for i := range steps {
					steps[i] = int64(r.IntN(9) - 4)
					v += steps[i]
					want = append(want, v)
				}
				d.Steps(want[len(want)-n], steps)
				continue
			} else if kind == 0 {
				first, step := int64(r.Uint64()), int64(r.IntN(5)-2)
				d.Run(first, step, n)
				for i := range n {
					want = append(want, first+step*int64(i))
				}
				continue
			}
			width := r.IntN(65)
			some := make([]uint64, n)
			for i := range some {
				some[i] = r.Uint64() >> (64 - width)
				want = append(want, int64(some[i]))
			}
			d.Add(some)
		}
		require.Equal(t, len(want), d.Rows())
		require.Equal(t, want, append([]int64(nil), numbers(t, &d)...))
		if len(want) > 0 {
			least, most := d.Bounds()
			require.Equal(t, slices.Min(want), least)
			require.Equal(t, slices.Max(want), most)
		}
	}
}

func TestDeltaOfTheGreatestDifferences(t *testing.T) {
	d := Delta{Grain: 8}
	d.Reset()
	d.Add([]uint64{math.MaxUint64 >> 1, 1 << 63, 0, math.MaxUint64})
	require.Equal(t, []int64{math.MaxInt64, math.MinInt64, 0, -1}, numbers(t, &d))
}

// TestIndexesAreJoined copies encoded sequences of any length, between runs and indexes that are not encoded.
func TestIndexesAreJoined(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var x Indexes
	for range 300 {
		width := r.IntN(20)
		x.Reset(width)
		var want []int32
		for range 1 + r.IntN(10) {
			some := make([]int32, r.IntN(100))
			for i := range some {
				some[i] = int32(r.IntN(1 << width))
				if i > 0 && r.IntN(4) > 0 {
					some[i] = some[i-1]
				}
			}
			switch one := int32(r.IntN(1 << width)); r.IntN(3) {
			case 0:
				x.Copy(Encode(nil, some, width), len(some))
			case 1:
				x.Add(some)
			default:
				x.Run(one, len(some))
				for i := range some {
					some[i] = one
				}
			}
			want = append(want, some...)
		}
		require.Equal(t, len(want), x.Rows())
		var by rle.DictionaryEncoding
		got, err := by.DecodeInt32(nil, x.Append(nil))
		require.NoError(t, err)
		require.Equal(t, want, append([]int32(nil), got...), "width %d", width)
	}
}

func TestBitsAreJoined(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var all Bits
		var want []bool
		for range r.IntN(8) {
			var some Bits
			for range []int{0, 1, 63, 64, 65, 200}[r.IntN(6)] {
				bit := r.IntN(2) == 0
				some.Add(bit)
				want = append(want, bit)
			}
			all.Copy(&some)
		}
		b := all.Append(nil)
		require.Len(t, b, (len(want)+7)/8)
		for i, bit := range want {
			require.Equal(t, bit, b[i/8]>>(i%8)&1 != 0, "bit %d of %d", i, len(want))
		}
	}
}

// TestRepeatsNumberNumbers over more rounds than the table's marks last.
func TestRepeatsNumberNumbers(t *testing.T) {
	r := NewRepeats()
	for round := range uint64(1<<12 + 10) {
		r.Reset()
		require.True(t, r.Add([]uint64{9, 70_000, 9, round, 1 << 63}, 4))
		want := map[uint64]int32{}
		for i, v := range []uint64{9, 70_000, 9, round, 1 << 63} {
			if _, ok := want[v]; !ok {
				want[v] = int32(len(want))
			}
			require.Equal(t, want[v], r.Indexes[i])
			require.Equal(t, int64(v), r.Values[r.Indexes[i]])
		}
	}
	require.False(t, r.Add([]uint64{1 << 40, 1 << 41}, 4))
	r.Reset()
	require.True(t, r.Add([]uint64{5, 6, 6, 7, 7, 7}, 9))
	r.Order()
	require.Equal(t, []int64{7, 6, 5}, r.Values)
	require.Equal(t, []int32{2, 1, 1, 0, 0, 0}, r.Indexes)
}

func TestDictionaryNumbersInOrderOfFirstUse(t *testing.T) {
	d := NewDictionary(6) // BYTE_ARRAY
	for round := range 2 {
		for i, s := range []string{"b", "", "a", "b", string([]byte("a"))} {
			require.Equal(t, []int32{0, 1, 2, 0, 2}[i], d.Index(Value{Text: s}), "round %d: %q", round, s)
		}
	}
	least, most := d.Bounds()
	require.Equal(t, []string{"", "b"}, []string{least.Text, most.Text})
	require.Equal(t, 3*4+2, d.Size())
	require.Len(t, d.plain(), d.Size())
}

// TestCodedFramesComeBack reads frames of each kind of block by a zstd decoder.
func TestCodedFramesComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	by, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer by.Close()
	var c coder
	for _, n := range []int{0, 1, 63, 64, 65, 1000, blockBytes - 1, blockBytes, blockBytes + 1, 3*blockBytes + 100} {
		for kind, one := range []func(int) byte{
			func(int) byte { return 7 },                                       // repeats
			func(int) byte { return byte(r.Uint32()) },                        // cannot be coded
			func(int) byte { return byte(r.NormFloat64() * 9) },               // can
			func(i int) byte { return byte(i/blockBytes) * byte(r.Uint32()) }, // by turns
		} {
			from := make([]byte, n)
			for i := range from {
				from[i] = one(i)
			}
			frame := c.frame(nil, from)
			got, err := by.DecodeAll(frame, nil)
			require.NoError(t, err, "%d bytes of kind %d", n, kind)
			require.True(t, slices.Equal(from, got), "%d bytes of kind %d", n, kind)
			if kind == 2 && n >= 1000 {
				require.Less(t, len(frame), n*3/4)
			}
		}
	}
}
