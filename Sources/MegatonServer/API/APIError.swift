internal import Hummingbird
internal import HummingbirdCore
internal import MegatonCluster
internal import MegatonRedis
internal import NIOCore

/// An error of a request to the API: its status, and a sentence for people. Its response is a `ProblemDocument`.
struct APIError: Error {
    let status: HTTPResponse.Status
    /// The event, the thing that it happened to, and what to do next.
    let detail: String
    let headers: HTTPFields

    /// Seconds after which a client may try again if the server could not do its part.
    private static let retryAfter = "1"

    init(_ status: HTTPResponse.Status, _ detail: String, headers: HTTPFields = [:]) {
        self.status = status
        self.detail = detail
        self.headers = headers
    }

    /// The server cannot answer for now; the same request may succeed later.
    static func unavailable(_ detail: String) -> APIError {
        APIError(.serviceUnavailable, detail, headers: [.retryAfter: retryAfter])
    }

    static func unknownBatch(_ name: String) -> APIError {
        APIError(
            .notFound,
            "There is no batch \(name): none of this name was submitted to the queue, or it ended so long ago that it "
                + "was forgotten."
        )
    }

    /// - Parameter subject: the beginning of the sentence.
    static func noName(_ subject: String) -> APIError {
        APIError(.badRequest, "\(subject) is no name: allowed are texts of \(Job.nameRule)")
    }

    /// The answer to a list of jobs for a batch that exists, perhaps by an earlier try of the same request.
    static func existingBatch(_ name: String) -> APIError {
        APIError(
            .conflict,
            "A batch of this name was submitted before; choose another name. If the request repeats one whose answer "
                + "was lost, GET /api/v1/batches/\(name) shows how many jobs were submitted. If these are all, it was "
                + "successful; otherwise cancel the batch, and submit all jobs again under another name."
        )
    }

    static func endedBatch(_ name: String) -> APIError {
        APIError(
            .conflict,
            "The batch \(name) has ended and takes no more jobs: push this job and further ones under a new name. If "
                + "the request repeats one whose answer was lost, the job may have ended with the batch; its outcomes "
                + "say so."
        )
    }

    static func otherOwner(of batch: String) -> APIError {
        APIError(
            .forbidden,
            "The batch \(batch) is not one of this token's; use the token that submitted it, or one with the scope "
                + "admin."
        )
    }

    static func noOutcomes(_ name: String) -> APIError {
        APIError(.conflict, "The batch \(name) was submitted without a ledger and keeps no outcomes.")
    }

    /// The error of a request whose handler has thrown an error.
    ///
    /// - Parameter readsOnly: whether the request changes nothing.
    init(_ error: any Error, readsOnly: Bool = false) {
        switch error {
        case let error as APIError: self = error
        case let error as RedisError: self.init(error, readsOnly: readsOnly)
        case is NIOTooManyBytesError: self.init(.contentTooLarge, "The request's body is too large.")
        case let error as HTTPError:
            self.init(
                error.status,
                error.body ?? "The request was refused: \(error.status.reasonPhrase).",
                headers: error.headers
            )
        case let error as any HTTPResponseError:
            self.init(error.status, "The request was refused: \(error.status.reasonPhrase).")
        default:
            self.init(.internalServerError, "The server could not handle the request; its log has the reason.")
        }
    }

    init(_ error: RedisError, readsOnly: Bool = false) {
        switch error.code {
        case .noBatch: self.init(.notFound, "There is no batch of this name, or no longer.")
        case .batchExists:
            self.init(.conflict, "A batch of this name was submitted before; choose another name.")
        case .batchClosed, .otherReader: self.init(.conflict, error.message)
        // The number of shards is being changed, for the most part.
        case .shardMismatch: self = .unavailable(error.message)
        case .closed: self = .unavailable("The server is shutting down.")
        default:
            if error.isTransient {
                // Its address is for the log.
                let advice =
                    readsOnly
                    ? "Send the request again" : "It is unknown whether the request took effect; send it again"
                self = .unavailable(
                    "The queue's Redis is unreachable, busy or full (\(error.code)). \(advice) after the time of "
                        + "Retry-After."
                )
            } else if [.authentication, .tls, .invalidConfiguration].contains(error.code) {
                // So are users, certificates and settings.
                self.init(
                    .internalServerError,
                    "The server cannot use the queue's Redis (\(error.code)); its log has the reason."
                )
            } else {
                self.init(.internalServerError, error.message)
            }
        }
    }

    func response() throws -> Response { try ProblemDocument(status, detail).response(headers) }
}
