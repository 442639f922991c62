//go:build chain

package chain_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certificate writes cert.pem and key.pem for 127.0.0.1 into a folder, and gives whoever is to believe it.
func certificate(t testing.TB, dir string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	require.True(t, trust.RootCAs.AppendCertsFromPEM(cert))
	return trust
}

// encrypting is the proxy beside an engine: what comes in plain text on the address that it gives goes on over TLS.
func encrypting(t testing.TB, to string, trust *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			plain, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer plain.Close()
				secure, err := tls.Dial("tcp", to, trust)
				if err != nil {
					return // the engine tries again
				}
				defer secure.Close()
				running.Go(func() { _, _ = io.Copy(secure, plain); _ = secure.CloseWrite() })
				_, _ = io.Copy(plain, secure)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); running.Wait() })
	return l.Addr().String()
}

// An engine on another host is heard through a proxy that encrypts, with the right token only, and nobody writes that down.
func TestAnEngineFromAnotherHost(t *testing.T) {
	t.Parallel()
	const token = "s3cret-of-the-engines"
	c := prepare(t, "dump: DIR/dump.jsonl", "tls: {cert_file: DIR/cert.pem, key_file: DIR/key.pem}", "auth: {authenticator: bearertokenauth}")
	trust := certificate(t, c.dir)
	address := freeAddress(t)
	text, err := os.ReadFile(c.config)
	require.NoError(t, err)
	changed := strings.NewReplacer("unix://"+c.socket, "tcp://"+address, "\nservice:\n",
		"\nextensions:\n  bearertokenauth: {filename: "+filepath.Join(c.dir, "token")+"}\nservice:\n  extensions: [bearertokenauth]\n").Replace(string(text))
	require.NoError(t, os.WriteFile(c.config, []byte(changed), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "token"), []byte(token+"\n"), 0o600))
	c.start()
	proxy := "KERNHES_ENDPOINT=tcp://" + encrypting(t, address, trust)

	stranger := c.begin(t, proxy, "KERNHES_TOKEN=guessed", "KERNHES_LOG=1", file("tp2.rank0"))
	c.eventually("the stranger is refused", func() bool { return c.logged("connection refused", "KERNHES_TOKEN is missing or wrong") != "" })
	require.NoError(t, stranger.command.Process.Signal(os.Interrupt))
	select {
	case <-stranger.ended:
	case <-time.After(patience):
		t.Fatal("the stranger did not end")
	}
	require.Contains(t, stranger.errors.String(), "KERNHES_TOKEN is missing or wrong")
	require.Empty(t, c.read(t).of(stranger.run).sessions)
	assert.Positive(t, all(scrape(t, c.own)).sum("otelcol_kernhes_connections_refused", `reason="auth"`))

	known := c.begin(t, proxy, "KERNHES_TOKEN="+token, "KERNHES_LOG=1", "KERNHES_LINGER_MS=60000", file("tp2.rank1"))
	known.end(0)
	ranks := c.ranks(t, known.run)
	require.Len(t, ranks, 1)
	isExpected(t, "tp2.rank1", ranks[0])

	require.NoError(t, filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "token" || d.Name() == "k.sock" {
			return err
		}
		written, err := os.ReadFile(path)
		assert.NotContains(t, string(written), token, path)
		return err
	}))
	assert.NotContains(t, known.errors.String(), token)
}
