import Foundation
import MegatonRedis
import MegatonTestSupport
import Testing

/// `--redis`, `--redis-ca`, `--redis-cert` and `--redis-key`, as typed by users.
@Suite(.timeLimit(.minutes(2))) struct RedisOptionTests {
    private func status(
        _ arguments: [String],
        environment: [String: String] = [:]
    ) async throws -> ProgramUnderTest.Ending {
        // Empty variables count as unset.
        let none = ["MEGATON_REDIS", "MEGATON_REDIS_CA", "MEGATON_REDIS_CERT", "MEGATON_REDIS_KEY"]
        let unset = Dictionary(uniqueKeysWithValues: none.map { ($0, "") })
        return await
            (try ProgramUnderTest.megaton(
                ["status"] + arguments,
                environment: unset.merging(environment) { _, new in new }
            )).ending()
    }

    @Test(.enabled(if: !RedisPrograms.usesValkey, "Valkey from PyPI has no TLS"))
    func aClientCertificateComesFromOptionsVariablesOrTheURL() async throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        let certificates = try await TestCertificates.make(in: directory)
        let server = try await certificates.sign("server")
        let client = try await certificates.sign("client")
        let port = try FreePort.find()
        let tls = RedisServerProcess.TLS(port: port, certificate: server.certificate, key: server.key)
        let settings = ["tls-ca-cert-file \(certificates.authority)", "tls-auth-clients yes"]
        try await RedisServerProcess.run(.init(settings: settings, tls: tls)) { (_) async throws in
            let url = "rediss://localhost:\(port)"
            let files = (certificates.authority, client.certificate, client.key)
            let options = ["--redis-ca", files.0, "--redis-cert", files.1, "--redis-key", files.2]
            let variables = [
                "MEGATON_REDIS": url, "MEGATON_REDIS_CA": files.0, "MEGATON_REDIS_CERT": files.1,
                "MEGATON_REDIS_KEY": files.2,
            ]
            let endings = [
                try await status(["--redis", url] + options), try await status([], environment: variables),
                try await status(["--redis", "\(url)?ca=\(files.0)&cert=\(files.1)&key=\(files.2)"]),
            ]
            for ending in endings { #expect(ending.code == 0, "\(ending.errors)") }
            let without = try await status(["--redis", url, "--redis-ca", files.0])
            #expect(without.code == 69 && without.errors.contains("--redis-cert"), "\(without.errors)")
            let untrusted = try await status(["--redis", url])
            #expect(untrusted.code == 69 && untrusted.errors.contains("--redis-ca"), "\(untrusted.errors)")
        }
    }

    /// Fault: the messages had neither the server nor a next step.
    @Test func aServerThatIsNotTheRightOneIsNamed() async throws {
        let port = try FreePort.find()
        try await RedisServerProcess.run(.init(port: port)) { (_) async throws in
            let ending = try await status(["--redis", "redis://127.0.0.1:\(port)/99"])
            #expect(ending.code == 69 && ending.errors.contains("out of range. Does "), "\(ending.errors)")
            #expect(ending.errors.contains("127.0.0.1:\(port)"), "\(ending.errors)")
        }
        try await OriginServer.run(answer: { _ in .init(status: 200) }) { (origin) async throws in
            let other = origin.url("/").port ?? 0
            let ending = try await status(["--redis", "redis://127.0.0.1:\(other)"])
            #expect(ending.code == 69 && ending.errors.contains("127.0.0.1:\(other)"), "\(ending.errors)")
        }
        let option = try await status(["--redis", "foo"])
        #expect(option.code == 64 && option.errors.contains("--redis: A Redis URL must look like"), "\(option.errors)")
        let variable = try await status([], environment: ["MEGATON_REDIS": "foo"])
        #expect(variable.code == 64 && variable.errors.contains("MEGATON_REDIS: A Redis URL"), "\(variable.errors)")
    }

    @Test(arguments: [
        (["--redis", "rediss://h", "--redis-cert", "/c.pem"], "--redis-key"),
        (["--redis", "rediss://h", "--redis-key", "/k.pem"], "--redis-cert"),
        (["--redis", "rediss://h", "--redis-cert", "/nowhere/c.pem", "--redis-key", "/k.pem"], "/nowhere/c.pem"),
        (["--redis", "redis://h", "--redis-ca", "/ca.pem"], "--redis-ca is for TLS"),
        (["--redis", "redis+cluster://h/1"], "database 0"), (["--redis", "redis+cluster://h,,h"], "Number 2"),
    ])
    func wrongFilesAreReported(_ arguments: [String], _ words: String) async throws {
        let ending = try await status(arguments)
        #expect(ending.code == 64 && ending.errors.contains(words), "\(ending.errors)")
    }
}
