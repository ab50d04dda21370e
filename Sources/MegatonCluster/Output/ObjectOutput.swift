internal import Foundation
package import Logging
internal import MegatonPipeline
import Synchronization

/// Writes results to objects of S3 or a compatible store, in allowed buckets.
///
/// An object has its SHA-256 and its ``OutputVersion`` among its metadata. It is looked up before it is written: an
/// object with the same SHA-256 is not written again, and one that was made from a newer original stays. The write is
/// conditional on the state that was found, so that two workers do not overwrite each other's objects unseen.
package struct ObjectOutput: Sendable {
    /// A result and its place.
    struct Object: Sendable {
        let location: S3Location
        let data: Data
        let format: Rendition.Format
        /// 64 hex digits.
        let sha256: String
        var version: OutputVersion?
    }

    /// The next step for an object, by the state of the store.
    private enum Step {
        case write(S3Store.Condition)
        /// The store has the same content.
        case skip
        /// The store has an object that was made from a newer original.
        case keep
    }

    /// The job's rules of replacement.
    private struct Rule {
        let replacement: Job.Replacement
        let source: S3Location?
    }

    /// Buckets that are written to without conditions, as their store has answered that it knows none. At most the
    /// allowed ones.
    private final class UnconditionalBuckets: Sendable {
        private let names = Mutex<Set<String>>([])

        func contains(_ bucket: String) -> Bool { names.withLock { $0.contains(bucket) } }

        /// - Returns: false if the bucket was known.
        func insert(_ bucket: String) -> Bool { names.withLock { $0.insert(bucket).inserted } }
    }

    /// The end of a message about an object that is not allowed.
    package static let remedy = "add the bucket, or a prefix of its keys, to Worker.Configuration.outputBuckets"

    private let store: S3Store
    private let buckets: [OutputBucket]
    /// Name of the store in messages.
    private let endpoint: String
    private let logger: Logger
    private let unconditional = UnconditionalBuckets()

    /// Maximum number of writes of an object that other workers change meanwhile.
    private static let maximumAttempts = 3

    /// - Parameter endpoint: URL of the store, for messages.
    package init(store: S3Store, buckets: [OutputBucket], endpoint: String, logger: Logger) {
        self.store = store
        self.buckets = buckets
        self.endpoint = endpoint
        self.logger = logger
    }

    /// Writes all of the objects, or none if one of them would replace an object that must stay.
    ///
    /// - Parameters:
    ///   - replacement: objects that may be replaced.
    ///   - source: the object from which the outputs were made; it is never replaced.
    /// - Returns: URLs of existing objects that stay, as their originals are newer.
    /// - Throws: `.forbidden`, `.outputExists` or `.outputFailed`, or `.cancelled`.
    @discardableResult
    func write(
        _ objects: [Object],
        replacing replacement: Job.Replacement,
        source: S3Location?
    ) async throws(ImagePipeline.Error) -> [String] {
        for object in objects { try check(object.location) }
        let rule = Rule(replacement: replacement, source: source)
        var due: [(object: Object, condition: S3Store.Condition)] = []
        var kept: [String] = []
        for object in objects {
            switch try await step(for: object, rule) {
            case .write(let condition): due.append((object, condition))
            case .keep: kept.append(object.location.url.absoluteString)
            case .skip: break
            }
        }
        for (object, condition) in due {
            let isWritten = try await write(object, if: condition, rule)
            if !isWritten { kept.append(object.location.url.absoluteString) }
        }
        return kept
    }

    private func check(_ location: S3Location) throws(ImagePipeline.Error) {
        if buckets.contains(where: { $0.contains(location) }) { return }
        let known = buckets.isEmpty ? "none" : buckets.map(\.description).joined(separator: ", ")
        throw ImagePipeline.Error(
            .forbidden,
            "The output \(location) is outside of the buckets that this worker may write to (\(known)); \(Self.remedy)."
        )
    }

    // MARK: - One object

    /// - Returns: false if an existing object stays, as its original is newer.
    private func write(
        _ object: Object,
        if first: S3Store.Condition,
        _ rule: Rule
    ) async throws(ImagePipeline.Error) -> Bool {
        let new = S3Store.Object(
            object.data,
            at: object.location,
            contentType: object.format.mediaType,
            sha256: object.sha256,
            version: object.version?.text
        )
        var condition = first
        for _ in 0..<Self.maximumAttempts {
            let isConditional = condition != .always && !unconditional.contains(object.location.bucket)
            var isPresent = condition == .absent
            do throws(ImagePipeline.Error) {
                try await store.write(new, if: isConditional ? condition : .always)
                return true
            } catch {
                if isConditional && error.status == 501 {
                    // From now on the object is looked up right before, as on a file system that cannot exchange names.
                    writeWithoutConditions(to: object.location.bucket)
                    isPresent = false
                } else {
                    // 404: the object has been deleted.
                    let hasChanged = error.status == 412 || (error.status == 404 && condition != .absent)
                    guard isConditional && hasChanged else { throw store.explained(error, object.location) }
                }
            }
            switch try await step(for: object, rule, isPresent: isPresent) {
            case .write(let next): condition = next
            case .skip: return true
            case .keep: return false
            }
        }
        throw ImagePipeline.Error(
            .outputFailed,
            "\(object.location) cannot be written: others change it at the same time. Give each job an output of its "
                + "own.",
            isRetryable: true
        )
    }

    private func writeWithoutConditions(to bucket: String) {
        guard unconditional.insert(bucket) else { return }
        logger.warning(
            """
            the store does not know conditional writes (status 501); from now on, objects are written without them, \
            so that workers that write the same object at the same time may overwrite each other's
            """,
            metadata: [LogKey.endpoint: "\(endpoint)", LogKey.bucket: "\(bucket)"]
        )
    }

    /// - Parameter isPresent: whether the store has just refused the object because there is one.
    /// - Throws: `.outputExists` if another object must stay.
    private func step(
        for object: Object,
        _ rule: Rule,
        isPresent: Bool = false
    ) async throws(ImagePipeline.Error) -> Step {
        let lookup: S3Store.Lookup
        do throws(ImagePipeline.Error) {
            lookup = try await store.lookup(object.location)
        } catch {
            throw store.explained(error, object.location)
        }
        let replacesAny = rule.replacement == .all && object.version == nil
        switch lookup {
        case .absent: return .write(replacesAny ? .always : .absent)
        case .unknown:
            try checkSource(object, rule)
            if rule.replacement == .all { return .write(.always) }
            if unconditional.contains(object.location.bucket) {
                throw ImagePipeline.Error(
                    .outputFailed,
                    "\(object.location) is not written, as it may exist: access to its type is denied, and the store "
                        + "knows no conditional writes. The credential of the bucket in the --credentials file needs "
                        + "s3:GetObject; or replace objects with --overwrite.",
                    isRetryable: false
                )
            }
            guard isPresent else { return .write(.absent) }
            throw ImagePipeline.Error(
                .outputFailed,
                "\(object.location) exists, and is not replaced, as its type cannot be read: access is denied. The "
                    + "credential of the bucket in the --credentials file needs s3:GetObject.",
                isRetryable: false
            )
        case .found(let found):
            if found.sha256 == object.sha256 && (found.size ?? object.data.count) == object.data.count { return .skip }
            if let version = object.version, version.isOutdated(by: found.version.flatMap(OutputVersion.init(text:))) {
                return .keep
            }
            try check(found, of: object, rule)
            guard !replacesAny, let tag = found.entityTag else { return .write(.always) }
            return .write(.unchanged(tag))
        }
    }

    private func check(
        _ found: S3Store.Properties,
        of object: Object,
        _ rule: Rule
    ) throws(ImagePipeline.Error) {
        try checkSource(object, rule)
        switch rule.replacement {
        case .all: return
        case .nothing:
            throw refusal(of: object, "has other content, and the job may not replace it (\"replace\": \"none\")")
        case .images:
            let type = found.contentType ?? "no type"
            // Without parameters.
            if type.prefix(while: { $0 != ";" && $0 != " " }).lowercased() == object.format.mediaType { return }
            throw refusal(
                of: object,
                "exists and has the type \(type.prefix(100)), not \(object.format.mediaType), and is not replaced. "
                    + "Name another output, or replace it with --overwrite (\"replace\": \"all\" in a job)"
            )
        }
    }

    private func checkSource(_ object: Object, _ rule: Rule) throws(ImagePipeline.Error) {
        guard object.location == rule.source else { return }
        throw refusal(of: object, "is the source of the job, and a source is never replaced")
    }

    private func refusal(of object: Object, _ reason: String) -> ImagePipeline.Error {
        ImagePipeline.Error(.outputExists, "\(object.location) \(reason).")
    }
}
