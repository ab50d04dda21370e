internal import Foundation
package import Hummingbird
internal import HummingbirdCore
internal import Logging
internal import MegatonCluster
internal import MegatonCore
package import NIOCore

/// Context of a request to ``HTTPServer``.
package struct ServerContext: AccessRequestContext {
    package var coreContext: CoreRequestContextStorage
    package var identity: AccessIdentity?
    package var isStillValid: (@Sendable () -> Bool)?
    package let remoteAddress: SocketAddress?
    /// The connection of the request.
    let channel: any Channel

    package init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
        remoteAddress = channel.remoteAddress
    }

    /// Metadata of a line about a change. The name of the token is in the line itself: the log leaves no such line out.
    func change(_ metadata: Logger.Metadata) -> Logger.Metadata {
        metadata.merging(["token": "\(identity?.name ?? "")"]) { $1 }
    }

    /// Whether the secrets in the URLs of jobs are hidden from the client.
    var hidesSecrets: Bool { identity?.allows(.admin) != true }

    /// JSON as the client may see it.
    func shown(_ json: Data) -> Data { hidesSecrets ? RedactedJSON.data(json) : json }

    /// A segment of the path that the route names, without percent-encoding.
    ///
    /// - Throws: an error with the status 400 if the encoding is not valid.
    func segment(_ name: String) throws(APIError) -> String {
        guard let text = parameters.get(name)?.removingPercentEncoding else {
            throw APIError(
                .badRequest,
                "The \(name) in the path is not valid: two hexadecimal digits must follow a %, and they must be UTF-8."
            )
        }
        return text
    }
}

extension Request {
    /// Value of a field whose name is valid and not one of those that the library knows.
    func field(_ name: String) -> String? { headers[.init(name)!] }

    /// The span of the client, for jobs that have none. A value that is not valid is ignored, as W3C Trace Context
    /// demands: proxies write this field too, and clients know nothing of it.
    var traceparent: String? {
        guard let text = field("traceparent"), TraceParent.isValid(text) else { return nil }
        return text
    }

    /// Checks the media type of the body, which may not be compressed.
    ///
    /// - Throws: an error with the status 415 for another type or a content coding. Only the response to a coding has
    ///   the field `Accept-Encoding` (RFC 9110 section 15.5.16).
    func require(contentType allowed: String...) throws(APIError) {
        if let coding = headers[.contentEncoding], !["", "identity"].contains(coding.lowercased()) {
            throw APIError(
                .unsupportedMediaType,
                "The request's body has the Content-Encoding \(FieldProblem.quoted(coding)); send it without one.",
                headers: [.acceptEncoding: "identity"]
            )
        }
        let type = headers[.contentType].map { text in
            text.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased()
        }
        if let type, allowed.contains(type) { return }
        throw APIError(
            .unsupportedMediaType,
            "The request's Content-Type is \(type.map { FieldProblem.quoted($0) } ?? "missing"); send "
                + "\(allowed.joined(separator: " or "))."
        )
    }

    /// The whole body.
    ///
    /// - Throws: an error with the status 413 if it is larger than the limit, bytes, 408 if it comes more slowly than
    ///   the pace, and 400 if it ends early.
    func content(atMost limit: Int, _ pace: UploadPace = UploadPace()) async throws -> Data {
        let (body, clock) = (body, UploadClock(pace))
        do {
            let data = try await withThrowingTaskGroup(of: Data?.self) { group in
                group.addTask {
                    var (data, iterator) = (Data(), body.makeAsyncIterator())
                    while let buffer = try await clock.next(of: &iterator) {
                        guard data.count + buffer.readableBytes <= limit else {
                            throw NIOTooManyBytesError(maxBytes: limit)
                        }
                        data.append(contentsOf: buffer.readableBytesView)
                    }
                    // A body that is no longer read has no end.
                    try Task.checkCancellation()
                    return data
                }
                group.addTask {
                    await clock.waitUntilTooSlow()
                    return nil
                }
                defer { group.cancelAll() }
                return try await group.next() ?? nil
            }
            try Task.checkCancellation()
            guard let data else { throw APIError(.requestTimeout, pace.refusal, headers: [.connection: "close"]) }
            return data
        } catch let error as APIError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch is NIOTooManyBytesError {
            throw APIError(.contentTooLarge, "The request's body has more than \(limit) bytes, which is the limit.")
        } catch {
            throw APIError(.badRequest, "The request ended before its body was complete, and had no effect.")
        }
    }

    /// The body as a value: a small JSON object, such as an operator's selection.
    ///
    /// - Throws: an error with the status 413 for a larger body, 415 for another type, and 400 for another object, with
    ///   the field.
    func decoded<Value: Decodable>(as type: Value.Type) async throws -> Value {
        try require(contentType: "application/json")
        let json = try await content(atMost: Self.maximumObjectSize)
        do {
            return try JSONDecoder().decode(type, from: json)
        } catch {
            // Foundation's own message may quote a part of the body.
            let problem = (error as? DecodingError)?.fieldProblem
            let text = problem.map { $0.path.isEmpty ? "The body \($0.problem)" : "The field \($0)" }
            throw APIError(.badRequest, FieldProblem.sentence(text ?? "The body is not a valid JSON object"))
        }
    }

    /// Maximum size of a body that is decoded, bytes.
    private static var maximumObjectSize: Int { 256 * 1024 }
}
