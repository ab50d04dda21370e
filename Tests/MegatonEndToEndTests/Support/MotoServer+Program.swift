import Foundation
import FoundationNetworking
import MegatonCluster
import MegatonPipeline
import MegatonTestSupport
import Testing

extension MotoServer {
    /// Starts a server, runs the body, and stops the server.
    static func run(_ body: (MotoServer) async throws -> Void) async throws {
        let moto = try await start()
        do {
            try await body(moto)
        } catch {
            await moto.stop()
            throw error
        }
        await moto.stop()
    }

    /// Options of a program that uses a bucket; the key is in a file of the directory.
    ///
    /// - Parameter other: a secret that is not that of the server; nil for the right one.
    func options(
        in directory: TestDirectory,
        bucket: String = MotoServer.bucket,
        secret other: String? = nil
    ) throws -> [String] {
        let key = #""s3":{"id":"\#(keyID)","secret":"\#(other ?? secret)"}"#
        let json = #"{"credentials":[{"sources":["s3://\#(bucket)"],\#(key)}]}"#
        let file = try directory.write(Data(json.utf8), to: "credentials.json")
        chmod(file, 0o600)
        return ["--s3-endpoint", url.absoluteString, "--credentials", file]
    }

    /// Checks that the store has an object with the bytes that an outcome names, and returns its properties.
    @discardableResult
    func check(
        _ output: JobOutcome.Output,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> S3Store.Properties? {
        let location = try S3Location(try #require(output.path.flatMap { URL(string: $0) }))
        let loader = try loader()
        guard case .found(let found) = try await S3Store(loader).lookup(location) else {
            Issue.record("\(location) is missing", sourceLocation: sourceLocation)
            return nil
        }
        #expect(
            found.size == output.bytes && found.sha256 == output.sha256,
            "\(location)",
            sourceLocation: sourceLocation
        )
        let data = try await loader.data(for: URLRequest(url: location.url), limit: 64 << 20).data
        #expect(Checksum.sha256(data) == output.sha256, "\(location)", sourceLocation: sourceLocation)
        return found
    }

    /// A loader with the server's key.
    private func loader() throws -> DataLoader {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes.insert("s3")
        configuration.s3 = S3Endpoint(url: url)
        configuration.credentials = Credentials([
            Credential(
                sources: [try SourceRule("s3://\(Self.bucket)")],
                method: .s3(keyID: keyID, secret: Secret(secret), sessionToken: nil)
            )
        ])
        return DataLoader(configuration)
    }
}
