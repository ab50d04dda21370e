internal import Foundation
internal import MegatonPipeline

/// Writes results to objects of S3 or a compatible store, in allowed buckets.
///
/// An object has its SHA-256 in `x-amz-meta-sha256`: an object that has the same one already is not written again.
package struct ObjectOutput: Sendable {
    /// A result and its place.
    struct Object: Sendable {
        let location: S3Location
        let data: Data
        let format: Rendition.Format
        /// 64 hex digits.
        let sha256: String
    }

    private let store: S3Store
    private let buckets: [OutputBucket]

    package init(store: S3Store, buckets: [OutputBucket]) {
        self.store = store
        self.buckets = buckets
    }

    /// Writes all of the objects, or none if one of them would replace an object that must stay.
    ///
    /// - Parameters:
    ///   - replacement: objects that may be replaced.
    ///   - source: the object from which the outputs were made; it is never replaced.
    /// - Throws: `.forbidden`, `.outputExists` or `.outputFailed`, or `.cancelled`.
    func write(
        _ objects: [Object],
        replacing replacement: Job.Replacement,
        source: S3Location?
    ) async throws(ImagePipeline.Error) {
        for object in objects { try check(object.location) }
        var open: [Object] = []
        for object in objects where try await isDue(object, replacement, source: source) { open.append(object) }
        for object in open {
            do throws(ImagePipeline.Error) {
                try await store.write(
                    S3Store.Object(
                        object.data,
                        at: object.location,
                        contentType: object.format.mediaType,
                        sha256: object.sha256
                    ),
                    onlyIfAbsent: replacement == .nothing
                )
            } catch {
                throw S3Store.explained(error, object.location)
            }
        }
    }

    private func check(_ location: S3Location) throws(ImagePipeline.Error) {
        if buckets.contains(where: { $0.contains(location) }) { return }
        let known = buckets.isEmpty ? "none" : buckets.map(\.description).joined(separator: ", ")
        throw ImagePipeline.Error(
            .forbidden,
            "The output \(location) is outside of the buckets that this worker may write to (\(known)); give "
                + "\(location.bucket), or a prefix of its keys, with --allow-bucket."
        )
    }

    /// Whether an object is to be written.
    ///
    /// - Throws: `.outputExists` if another one must stay.
    private func isDue(
        _ object: Object,
        _ replacement: Job.Replacement,
        source: S3Location?
    ) async throws(ImagePipeline.Error) -> Bool {
        let found: S3Store.Properties?
        do throws(ImagePipeline.Error) {
            found = try await store.properties(of: object.location)
        } catch {
            throw S3Store.explained(error, object.location)
        }
        guard let found else { return true }
        if object.location == source {
            throw refusal(of: object, "is the source of the job, and a source is never replaced")
        }
        if found.sha256 == object.sha256 && found.size ?? object.data.count == object.data.count { return false }
        switch replacement {
        case .all: return true
        case .nothing:
            throw refusal(of: object, "has other content, and the job may not replace it (\"replace\": \"none\")")
        case .images:
            let type = found.contentType ?? "no type"
            if type == object.format.mediaType { return true }
            throw refusal(
                of: object,
                "has the type \(type.prefix(100)), and is not replaced. Name another output, or replace it with "
                    + "--overwrite (\"replace\": \"all\" in a job)"
            )
        }
    }

    private func refusal(of object: Object, _ reason: String) -> ImagePipeline.Error {
        ImagePipeline.Error(.outputExists, "\(object.location) \(reason).")
    }
}
