import Foundation
import MegatonCluster
import MegatonCommandLine
import MegatonPipeline

/// Checks before a run begins that its outputs can be written, so that no source is fetched in vain.
enum OutputCheck {
    /// Checks the output directory, which exists. Blocks.
    ///
    /// - Returns: a remark if it takes no file and is not empty: outputs that are there may stay as they are, and its
    ///   subdirectories may take files.
    /// - Throws: `CLIError` 74 if it takes no file and is empty.
    static func checkDirectory(_ directory: String) throws -> String? {
        guard let reason = FileOutput.obstacle(in: directory) else { return nil }
        // A directory that cannot be listed may have subdirectories.
        let isEmpty = (try? FileManager.default.contentsOfDirectory(atPath: directory))?.isEmpty ?? false
        if !isEmpty {
            return "no file can be written to the output directory \(directory) itself: \(reason). New outputs fail "
                + "there; those in its subdirectories may not."
        }
        throw CLIError.output(
            "no file can be written to the output directory \(directory): \(reason). Correct that, or name another "
                + "directory with --output. Nothing was fetched."
        )
    }

    /// Checks the directory of `--local-cache`, without which workers work all the same. Makes it, and blocks.
    ///
    /// - Returns: a remark if it cannot be used.
    static func localCacheRemark(_ path: String) -> String? {
        let directory = FileNames.absolutePath(path)
        func remark(_ reason: String) -> String {
            FieldProblem.sentence(
                "--local-cache \(directory) cannot be used, and the workers work without it: \(reason)"
            )
        }
        do {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        } catch {
            return remark(CLIError.reason(error))
        }
        return FileOutput.obstacle(in: directory).map(remark)
    }

    /// Asks the store for the bucket of the outputs.
    ///
    /// - Parameters:
    ///   - access: the options of the workers that write the objects.
    ///   - deadline: the end of `--timeout`, with which the run ends; nil if there is none.
    /// - Throws: `CLIError` 74 if the store cannot be reached or shows that no object can be written to the bucket, 130
    ///   after a signal, or an error of the credentials.
    static func requireBucket(
        _ bucket: OutputBucket,
        _ access: SourceAccessOptions,
        _ shutdown: ShutdownSignal,
        until deadline: ContinuousClock.Instant?
    ) async throws {
        guard let location = bucket.probe else { return }
        let store = try store(access)
        let reason: String? = await withTaskGroup(of: String?.self) { group in
            group.addTask { await store.obstacle(at: location) }
            group.addTask {
                await shutdown.wait(for: .drain)
                return nil
            }
            if let deadline {
                group.addTask {
                    // It throws only if the task is cancelled, as the store has answered.
                    try? await Task.sleep(until: deadline, clock: .continuous)
                    return nil
                }
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
        let problem = FieldProblem.sentence("no object can be written to the output s3://\(bucket)/: \(reason)")
        throw CLIError.output("\(problem) Nothing was fetched.")
    }

    /// A store with the rules by which workers write objects.
    private static func store(_ access: SourceAccessOptions) throws -> S3Store {
        var configuration = DataLoader.Configuration()
        configuration.urlPolicy.schemes = ["s3"]
        configuration.addressPolicy = access.addressPolicy
        configuration.credentials = try access.credentialsFile()?.credentials ?? Credentials()
        configuration.s3 = access.s3
        configuration.caFile = access.caFile
        return S3Store(DataLoader(configuration), retries: RetryingDataLoader.Policy())
    }
}
