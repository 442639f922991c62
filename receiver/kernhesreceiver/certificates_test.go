package kernhesreceiver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/kernhes/kernhes/internal/wire"
)

// clientCertificate is one that signs itself, valid until a time, and its PEM.
func clientCertificate(t *testing.T, until time.Time) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "an engine"}, NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestWhichCertificatesAreTaken: an engine without a certificate, with one that another signed, or with one that has expired is not heard,
// and one with the right one is. The collector's own certificate convinces none that does not know it.
func TestWhichCertificatesAreTaken(t *testing.T) {
	right, rightPEM := clientCertificate(t, time.Now().Add(time.Hour))
	expired, expiredPEM := clientCertificate(t, time.Now().Add(-time.Hour))
	stranger, _ := clientCertificate(t, time.Now().Add(time.Hour))
	authorities := filepath.Join(t.TempDir(), "engines.pem")
	require.NoError(t, os.WriteFile(authorities, append(rightPEM, expiredPEM...), 0o600))
	c := certify(t)
	c.server.ClientCAFile = authorities
	b := newBenchOn(t, newKeeper(t), fakes, func(cfg *Config) {
		cfg.Transport, cfg.Endpoint = confignet.TransportTypeTCP, "127.0.0.1:0"
		cfg.TLS = configoptional.Some(c.server)
		cfg.Auth = configoptional.Some(configauth.Config{AuthenticatorID: component.MustNewID("bearertokenauth")})
	})
	with := func(certificates ...tls.Certificate) *tls.Config {
		one := c.client.Clone()
		one.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // whatever authorities are named
			if len(certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certificates[0], nil
		}
		return one
	}
	for what, config := range map[string]*tls.Config{"none": with(), "a stranger's": with(stranger), "expired": with(expired)} {
		before := b.number("kernhes_connections_refused")
		conn, err := tls.Dial("tcp", b.r.server.Addr().String(), config)
		if err == nil { // of TLS 1.3 the client hears the refusal with its first read
			_, _ = conn.Write(hello(wire.Version, 1, "token", secret))
			_, err = conn.Read(make([]byte, 1))
			_ = conn.Close() // which the refusal may have done
		}
		require.Error(t, err, what)
		require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == before+1 }, waitFor, tick, what)
	}
	assert.Empty(t, b.r.sessions.Live(time.Now()))
	engine := b.tlsClient(with(right))
	engine.write(hello(wire.Version, 1, "token", secret))
	engine.read(wire.KindWelcome)

	_, err := tls.Dial("tcp", b.r.server.Addr().String(), &tls.Config{RootCAs: x509.NewCertPool()})
	require.Error(t, err, "it is not who the engine asked for")

	for _, path := range []string{"/status", "/status?format=html", "/live", "/"} {
		_, body, _ := b.get(http.MethodGet, path, nil)
		assert.NotContains(t, string(body), secret, path)
	}
	for _, e := range b.logs.All() {
		for _, field := range e.Context {
			assert.NotContains(t, field.String, secret)
		}
	}
}
