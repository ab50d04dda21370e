internal import Foundation
internal import FoundationNetworking

extension S3Store {
    /// Size of all parts but the last, bytes; S3 wants at least 5 MiB.
    package static let partSize = 8 * 1024 * 1024
    /// Largest object that is written with one request, bytes.
    package static let singleLimit = 16 * 1024 * 1024
    /// Maximum size of the answers to requests about parts, bytes.
    private static let answerLimit = 64 * 1024

    /// Stores an object: with one request, or in parts if it is large. Parts of an upload that fails or is cancelled
    /// are deleted.
    package func write(_ object: Object, if condition: Condition) async throws(ImageError) {
        guard object.data.count > Self.singleLimit else { return try await put(object, if: condition) }
        let upload = try await begin(object)
        do throws(ImageError) {
            let tags = try await uploadParts(object, of: upload)
            try await complete(object, tags, of: upload, if: condition)
        } catch {
            await abort(object.location, upload)
            throw error
        }
    }

    /// - Returns: the id of the upload, percent-encoded.
    private func begin(_ object: Object) async throws(ImageError) -> String {
        var request = request("POST", object.location, query: "uploads=")
        request.describe(object)
        // Some stores refuse a POST without a length.
        request.setValue("0", forHTTPHeaderField: "Content-Length")
        // A repetition after a lost answer is another upload: the first one stays, without parts.
        let creation = request
        let answer = try await repeating { () async throws(ImageError) in
            try await loader.data(for: creation, limit: Self.answerLimit).data
        }
        let text = String(decoding: answer, as: UTF8.self)
        guard let id = text.firstMatch(of: /<UploadId>([^<&]+)<\/UploadId>/)?.1 else {
            throw Self.badAnswer(object.location, "an upload in parts")
        }
        return S3Location.encoded(String(id)).replacing("/", with: "%2F")
    }

    /// - Returns: the entity tags of the parts.
    private func uploadParts(_ object: Object, of upload: String) async throws(ImageError) -> [String] {
        var tags: [String] = []
        for start in stride(from: 0, to: object.data.count, by: Self.partSize) {
            let end = min(start + Self.partSize, object.data.count)
            let query = "partNumber=\(tags.count + 1)&uploadId=\(upload)"
            var request = request("PUT", object.location, query: query)
            // libcurl would call it a form, and a store may read it as one.
            request.setValue("application/octet-stream", forHTTPHeaderField: "Content-Type")
            // A slice, which shares the bytes.
            request.httpBody = object.data[object.data.startIndex + start..<object.data.startIndex + end]
            let response = try await loader.data(for: request, limit: Self.answerLimit).response
            guard let tag = (response as? HTTPURLResponse)?.value(forHTTPHeaderField: "ETag") else {
                throw Self.badAnswer(object.location, "a part without ETag")
            }
            tags.append(tag)
        }
        return tags
    }

    private func complete(
        _ object: Object,
        _ tags: [String],
        of upload: String,
        if condition: Condition
    ) async throws(ImageError) {
        let parts = tags.enumerated().map { index, tag in
            "<Part><PartNumber>\(index + 1)</PartNumber><ETag>\(tag.replacing("\"", with: "&quot;"))</ETag></Part>"
        }
        var request = request("POST", object.location, query: "uploadId=\(upload)")
        request.setValue("application/xml", forHTTPHeaderField: "Content-Type")
        request.require(condition)
        request.httpBody = Data("<CompleteMultipartUpload>\(parts.joined())</CompleteMultipartUpload>".utf8)
        let completion = request
        do throws(ImageError) {
            try await repeating { () async throws(ImageError) in try await send(completion, at: object.location) }
        } catch {
            // The store has no such upload any more if it has completed it and its answer was lost.
            guard S3Problem.code(of: error) == "NoSuchUpload" else { throw error }
            if try await has(object) { return }
            // Another attempt begins a new upload.
            var failure = error
            failure.isRetryable = true
            throw failure
        }
    }

    private func send(_ completion: URLRequest, at location: S3Location) async throws(ImageError) {
        let answer = try await loader.data(for: completion, limit: Self.answerLimit).data
        // A store may find the error after it has sent the status 200.
        if String(decoding: answer, as: UTF8.self).contains("<CompleteMultipartUploadResult") { return }
        var error = Self.badAnswer(location, "the end of an upload in parts", isRetryable: true)
        error.excerpt = S3Problem.excerpt(answer)
        switch S3Problem.code(of: error) {
        case "PreconditionFailed": (error.status, error.isRetryable) = (412, false)
        case "NoSuchUpload": error.isRetryable = false
        default: break
        }
        throw error
    }

    /// Whether the store has exactly this object. Its SHA-256 must be known: size and type do not identify it.
    private func has(_ object: Object) async throws(ImageError) -> Bool {
        guard let sha256 = object.sha256, case .found(let found) = try await lookup(object.location) else {
            return false
        }
        return found.sha256 == sha256 && (found.size ?? object.data.count) == object.data.count
            && found.contentType == object.contentType && found.version == object.version
    }

    /// Repeats a POST after a failure that may pass, as often and as slowly as the loader repeats other requests: no
    /// POST is repeated there, as it may not be idempotent.
    private func repeating<Answer: Sendable>(
        _ body: () async throws(ImageError) -> Answer
    ) async throws(ImageError) -> Answer {
        var number = 0
        let cancellation = ImageError(.cancelled, "The upload was cancelled.")
        return try await retrying(cancellation: cancellation, attempt: body) { error in
            number += 1
            if number >= retries.attempts { return nil }
            return retries.wait(after: error, number, chance: .random(in: 0..<1))
        }
    }

    private func abort(_ location: S3Location, _ upload: String) async {
        let request = request("DELETE", location, query: "uploadId=\(upload)")
        // Not a child of this task, which may be cancelled: the parts would stay, and be paid for. It has a time limit
        // of its own, so that a worker can end, and is awaited. If it fails, a rule of the bucket has to delete the
        // parts.
        _ = await Task {
            await TimeLimit.wait(atMost: .seconds(5)) {
                (try? await loader.data(for: request, limit: Self.answerLimit)) != nil
            }
        }.value
    }

    private static func badAnswer(
        _ location: S3Location,
        _ subject: String,
        isRetryable: Bool = false
    ) -> ImageError {
        ImageError(
            .badResponse,
            "the store's answer about \(subject) of \(location) cannot be read",
            isRetryable: isRetryable
        )
    }
}

extension URLRequest {
    /// Carries the query of a request for an object, and is removed by ``DataLoader``. A header field, because no other
    /// custom property of a `URLRequest` reaches a loader.
    private static let queryField = "Megaton-S3-Query"

    /// Query of a request for an object of `s3:`, percent-encoded, its fields sorted.
    var s3Query: String? {
        get { value(forHTTPHeaderField: Self.queryField) }
        set { setValue(newValue, forHTTPHeaderField: Self.queryField) }
    }
}
