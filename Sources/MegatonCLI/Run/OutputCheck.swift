import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Checks before a run begins that its outputs can be written, so that no source is fetched in vain.
enum OutputCheck {
    /// Blocks.
    ///
    /// - Parameter directory: the output directory, which exists.
    /// - Throws: `CLIError` 74 if it takes no file.
    static func requireDirectory(_ directory: String) throws {
        guard let reason = FileOutput.obstacle(in: directory) else { return }
        throw CLIError.output(
            "no file can be written to the output directory \(directory): \(reason). Correct that, or name another "
                + "directory with --output. Nothing was fetched."
        )
    }

    /// - Parameter access: the options of the workers that write the objects.
    /// - Throws: `CLIError` 74 if the store cannot be reached or shows that no object can be written to the bucket, 130
    ///   after a signal, or an error of the credentials.
    static func requireBucket(
        _ bucket: OutputBucket,
        _ access: SourceAccessOptions,
        _ shutdown: ShutdownSignal
    ) async throws {
        guard let location = bucket.probe else { return }
        let store = try store(access)
        let reason: String? = await withTaskGroup(of: String?.self) { group in
            group.addTask { await store.obstacle(at: location) }
            group.addTask {
                await shutdown.wait(for: .drain)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        if shutdown.level > .none {
            throw CLIError(
                code: 130,
                message: "interrupted while the bucket of --output was checked; nothing was fetched."
            )
        }
        guard let reason else { return }
        throw CLIError.output(
            "no object can be written to the output s3://\(bucket)/: \(reason). Nothing was fetched."
        )
    }

    /// A store with the rules by which workers write objects.
    private static func store(_ access: SourceAccessOptions) throws -> S3Store {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes = ["s3"]
        configuration.addressPolicy = access.addressPolicy
        configuration.credentials = try access.credentialsFile()?.credentials ?? Credentials()
        configuration.s3 = access.s3
        return S3Store(DataLoader(configuration), retries: RetryingDataLoader.Policy())
    }
}
