import Foundation
import Logging
import MegatonTestSupport
import NIOPosix
import Testing

@testable import MegatonRedis

/// Client certificates against a real Redis that asks for them, which is the default of Redis.
@Suite(.enabled(if: !RedisPrograms.usesValkey, "Valkey from PyPI has no TLS"), .timeLimit(.minutes(2)))
struct TLSTests {
    private struct Fixture {
        let directory: TestDirectory
        let certificates: TestCertificates
        let client: TestCertificates.Pair
        let port: Int

        /// A URL with the right files; further options are appended.
        var url: String { "rediss://localhost:\(port)?ca=\(certificates.authority)" }
        var fullURL: String { "\(url)&cert=\(client.certificate)&key=\(client.key)" }
    }

    /// Runs a Redis with TLS that refuses clients without a certificate.
    private func withServer(_ body: (Fixture) async throws -> Void) async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let certificates = try await TestCertificates.make(in: directory)
        let server = try await certificates.sign("server")
        let client = try await certificates.sign("client")
        let port = try FreePort.find()
        let tls = RedisServerProcess.TLS(port: port, certificate: server.certificate, key: server.key)
        let settings = ["tls-ca-cert-file \(certificates.authority)", "tls-auth-clients yes"]
        try await RedisServerProcess.run(.init(settings: settings, tls: tls)) { (_) async throws in
            try await body(
                Fixture(directory: directory, certificates: certificates, client: client, port: port)
            )
        }
    }

    private func client(_ url: String) throws -> RedisClient {
        RedisClient(
            try RedisConfiguration(url: url),
            role: "test",
            group: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    /// The error of a client that tries for an hour, so that only a permanent error ends the test in time.
    private func refusal(_ url: String) async throws -> RedisError? {
        let client = try client(url)
        defer { client.close() }
        do throws(RedisError) {
            try await client.connect(waiting: .seconds(3600))
            return nil
        } catch {
            return error
        }
    }

    @Test func identifiesItselfByItsCertificate() async throws {
        try await withServer { (fixture) async throws in
            let client = try client(fixture.fullURL)
            defer { client.close() }
            #expect(try await client.send(["PING"]) == .status("PONG"))
            // One file may hold both.
            let both = "\(fixture.directory.path)/both.pem"
            let parts = try [fixture.client.certificate, fixture.client.key].map {
                try Data(contentsOf: URL(fileURLWithPath: $0))
            }
            try fixture.directory.write(parts[0] + parts[1], to: "both.pem")
            let other = try self.client("\(fixture.url)&cert=\(both)&key=\(both)")
            defer { other.close() }
            #expect(try await other.send(["PING"]) == .status("PONG"))
        }
    }

    @Test func aServerThatAsksForACertificateSaysWhichOptionNamesIt() async throws {
        try await withServer { (fixture) async throws in
            let client = try client(fixture.url)
            defer { client.close() }
            // The server's alert comes after the handshake; a reset connection may overtake it.
            await #expect { try await client.connect() } throws: { error in
                let error = error as? RedisError
                return [.tls, .connectionClosed].contains(error?.code)
                    && error?.message.contains("--redis-cert") == true
            }
        }
    }

    @Test func aCertificateOfAnotherAuthorityIsRefused() async throws {
        try await withServer { (fixture) async throws in
            let other = try await TestCertificates.make(in: fixture.directory, name: "other")
            let stranger = try await other.sign("stranger")
            let client = try client("\(fixture.url)&cert=\(stranger.certificate)&key=\(stranger.key)")
            defer { client.close() }
            await #expect { try await client.connect() } throws: { error in
                let error = error as? RedisError
                return [.tls, .connectionClosed].contains(error?.code)
                    && error?.message.contains(stranger.certificate) == true
            }
            // And the other way: the client does not trust the server.
            let untrusted = try await refusal("rediss://localhost:\(fixture.port)?ca=\(other.authority)")
            #expect(untrusted?.code == .tls && untrusted?.message.contains(other.authority) == true, "\(untrusted!)")
        }
    }

    /// The certificate names localhost and 127.0.0.1; the server listens at other loopback addresses too.
    @Test func aServerOfAnotherNameIsRefused() async throws {
        try await withServer { (fixture) async throws in
            let named = try client(fixture.fullURL.replacingOccurrences(of: "localhost", with: "127.0.0.1"))
            defer { named.close() }
            #expect(try await named.send(["PING"]) == .status("PONG"))
            let files =
                "ca=\(fixture.certificates.authority)&cert=\(fixture.client.certificate)&key=\(fixture.client.key)"
            let unnamed = try self.client("rediss://[::1]:\(fixture.port)?\(files)")
            defer { unnamed.close() }
            await #expect { try await unnamed.connect() } throws: { error in
                // A machine without IPv6 cannot reach it.
                [.tls, .unreachable].contains((error as? RedisError)?.code)
            }
        }
    }

    @Test func filesThatAreMissingOrDoNotFitAreNamed() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let certificates = try await TestCertificates.make(in: directory)
        let (one, two) = (try await certificates.sign("one"), try await certificates.sign("two"))
        let empty = try directory.write(Data("no certificate".utf8), to: "empty.pem")
        let missing = "\(directory.path)/missing.pem"
        let cases: [(options: String, file: String)] = [
            ("ca=\(missing)", missing), ("ca=\(empty)", empty), ("ca=\(directory.path)", directory.path),
            ("cert=\(missing)&key=\(one.key)", missing), ("cert=\(empty)&key=\(one.key)", empty),
            ("cert=\(one.certificate)&key=\(missing)", missing), ("cert=\(one.certificate)&key=\(empty)", empty),
            ("cert=\(one.certificate)&key=\(two.key)", two.key),
        ]
        for (options, file) in cases {
            // No server is needed: the files are read first.
            let error = try await refusal("rediss://127.0.0.1:1?\(options)")
            #expect(error?.code == .invalidConfiguration && error?.message.contains(file) == true, "\(options)")
        }
    }

    /// A sentinel and its master with TLS, users of their own, and client certificates.
    @Test func asksASentinelOverTLSAsAUserOfItsOwn() async throws {
        try await withServer { (fixture) async throws in
            let server = try await fixture.certificates.sign("sentinel")
            let sentinelPort = try FreePort.find()
            let lines = [
                "port 0", "tls-port \(sentinelPort)", "bind 127.0.0.1", "dir \(fixture.directory.path)",
                "tls-cert-file \(server.certificate)", "tls-key-file \(server.key)",
                "tls-ca-cert-file \(fixture.certificates.authority)", "tls-auth-clients yes", "tls-replication yes",
                "user default off", "user bob on >watch allchannels +auth +sentinel|get-master-addr-by-name",
                "sentinel monitor mymaster 127.0.0.1 \(fixture.port) 1",
                "sentinel down-after-milliseconds mymaster 600000",
            ]
            let file = try fixture.directory.write(
                Data((lines.joined(separator: "\n") + "\n").utf8),
                to: "sentinel.conf"
            )
            let process = try ProgramUnderTest(program: RedisPrograms.server, arguments: [file, "--sentinel"])
            let files = fixture.fullURL.split(separator: "?")[1]
            let address = "rediss-sentinel://localhost:\(sentinelPort)/mymaster?\(files)"
            let client = try client("\(address)&sentinel-username=bob&sentinel-password=watch")
            defer { client.close() }
            // The client retries until the sentinel listens.
            #expect(try await client.send(["PING"], timeout: .seconds(20)) == .status("PONG"))
            let wrong = try await refusal("\(address)&sentinel-username=bob&sentinel-password=wrong")
            #expect(wrong?.code == .authentication)
            process.send(SIGKILL)
            _ = await process.ending()
        }
    }
}
