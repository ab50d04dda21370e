import Foundation
import FoundationNetworking
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Loads the parts of inputs that are on the network, by the rules by which workers load sources.
struct RemoteInputs: Sendable {
    private let loader: RetryingDataLoader
    private let credentials: Credentials
    /// Name of the credential; nil for the one that matches.
    private let credential: String?
    /// Ends a load; nil if the process ends at a signal.
    private let shutdown: ShutdownSignal?

    /// - Throws: `CLIError` for the credentials; `ImagePipeline.Error` for the rules.
    init(_ access: SourceAccessOptions, credential: String?, shutdown: ShutdownSignal?) throws {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.sources = try access.sources()
        configuration.addressPolicy = access.addressPolicy
        configuration.credentials = try access.credentialsFile()?.credentials ?? Credentials()
        configuration.s3 = access.s3
        configuration.caFile = access.caFile
        let hasS3 = configuration.credentials.credentials.contains { credential in
            if case .s3 = credential.method { true } else { false }
        }
        if hasS3 || access.s3Endpoint != nil { configuration.urlPolicy.schemes.insert("s3") }
        var retries = RetryingDataLoader.Policy()
        retries.holdsBody = true
        loader = RetryingDataLoader(DataLoader(configuration), retries)
        credentials = configuration.credentials
        // Without credentials, the name is for the workers alone.
        self.credential = configuration.credentials.credentials.isEmpty ? nil : credential
        self.shutdown = shutdown
    }

    /// Loads a part of the inputs.
    ///
    /// - Returns: nil after a signal.
    /// - Throws: `CLIError` with the reason.
    func answer(_ request: RemoteRequest) async throws -> RemoteAnswer? {
        guard let shutdown else { return try await load(request) }
        return try await withThrowingTaskGroup(of: RemoteAnswer?.self) { group in
            group.addTask { try await load(request) }
            group.addTask {
                await shutdown.wait(for: .drain)
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    private func load(_ request: RemoteRequest) async throws -> RemoteAnswer {
        switch request {
        case .keys(let prefix, let token):
            do throws(ImagePipeline.Error) {
                let listing = S3Listing(loader, credentials: credentials)
                return .keys(try await listing.page(of: prefix, after: token, credential: credential))
            } catch {
                throw Self.failure(error)
            }
        case .sitemap(let url):
            var request = URLRequest(url: url)
            request.credentialName = credential
            do throws(ImagePipeline.Error) {
                return .sitemap(.data(try await loader.data(for: request, limit: InputReader.sitemapLimit).data))
            } catch {
                if error.code == .cancelled { throw error }
                return .sitemap(.failed(Self.failure(error)))
            }
        }
    }

    /// The error with the options in the place of the library's settings. Later the same command may succeed, unlike
    /// one with a wrong name.
    private static func failure(_ error: ImagePipeline.Error) -> CLIError {
        let message = JobRunner.naming(SourceAccessOptions.optionNames, in: error.message)
        return error.isRetryable ? .unavailable(message) : .usage(message)
    }
}

extension BatchOptions {
    /// The loader of inputs that are read over the network; nil if none is.
    ///
    /// - Parameter shutdown: ends a load at a signal.
    /// - Throws: `CLIError` for the credentials; `ImagePipeline.Error` for the rules.
    func remoteInputs(_ access: SourceAccessOptions, _ shutdown: ShutdownSignal? = nil) throws -> RemoteInputs? {
        guard hasRemoteInputs else { return nil }
        return try RemoteInputs(access, credential: credential, shutdown: shutdown)
    }
}
