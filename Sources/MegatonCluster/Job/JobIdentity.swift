internal import Foundation
internal import FoundationNetworking
internal import MegatonCore
package import MegatonPipeline

/// The readable fields of a job that cannot be accepted: its batch with its size, id, labels, source and reply, so that
/// its outcome can be matched to it, and sent.
///
/// Each field is read by itself and left out if it cannot be used; the rest of the job is ignored. The JSON must be a
/// complete object, except that the beginning of a job that was too large is read as far as it goes.
struct JobIdentity: Sendable, Equatable {
    var id: String?
    var batch: String?
    var labels: Job.Labels?
    /// At most `JobOutcome.maximumSource` characters.
    var source: String?
    var reply: JobReply?
    var batchSize: Int?

    /// - Parameter isCut: whether the JSON is only the beginning of a job.
    init(_ json: Data, isCut: Bool = false) {
        let wanted = ["id", "batch", "labels", "source", "reply", "batchSize"]
        guard let fields = Self.fields(of: json, wanted: wanted, isCut: isCut) else { return }
        id = Self.read(JobID.self, fields["id"])?.text
        batch = Self.read(String.self, fields["batch"])
        if let batch, !Job.isName(batch) { self.batch = nil }
        labels = Self.read([String: Readable<LabelValue>].self, fields["labels"])?.compactMapValues(\.value)
        if let labels, labels.isEmpty || Job.problem(labels) != nil { self.labels = nil }
        source = Self.read(String.self, fields["source"])?.truncated(to: JobOutcome.maximumSource)
        reply = Self.read(JobReply.self, fields["reply"])
        batchSize = Self.read(Int.self, fields["batchSize"]).flatMap { Job.batchSizes.contains($0) ? $0 : nil }
    }

    private static func read<Value: Decodable>(_ type: Value.Type, _ json: Data?) -> Value? {
        json.flatMap { try? JSONDecoder().decode(type, from: $0) }
    }

    /// Decodes to nil instead of failing, so that the values beside it can be read.
    private struct Readable<Value: Decodable>: Decodable {
        let value: Value?

        init(from decoder: any Decoder) throws {
            // The error of the whole job already names the field.
            value = try? decoder.singleValueContainer().decode(Value.self)
        }
    }

    /// The JSON of fields of the outermost object; of repeated fields the first, as the decoder does.
    private static func fields(of json: Data, wanted: [String], isCut: Bool) -> [String: Data]? {
        var fields: [String: Data] = [:]
        // A byte order mark is not valid JSON, but some programs write one.
        let text = json.starts(with: [0xEF, 0xBB, 0xBF]) ? json.dropFirst(3) : json
        let isWhole = PlainJSONReader.read(text) { reader in
            reader.members { name, value in
                let name = read(String.self, name) ?? ""
                if wanted.contains(name), fields[name] == nil { fields[name] = value }
            } ? true : nil
        }
        return isWhole != nil || isCut ? fields : nil
    }
}

/// An id in a job's JSON: a text, or a whole number, which equals its digits.
struct JobID: Decodable {
    let text: String

    static let allowed = "are texts of \(Job.nameRule), and whole numbers of 64 bits"

    init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let text = try? value.decode(String.self) {
            self.text = text
        } else if let number = try? value.decode(Int.self) {
            text = String(number)
        } else if let number = try? value.decode(UInt.self) {
            text = String(number)
        } else {
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(FieldProblem.value(of: decoder)); allowed \(Self.allowed)"
            )
        }
        guard Job.isName(text) else {
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(FieldProblem.quoted(text)); allowed \(Self.allowed)"
            )
        }
    }
}

extension Job {
    /// The request for the source, with the credential that the job names.
    ///
    /// - Parameter url: the source.
    func request(at url: URL) -> ImageRequest {
        guard let credential else { return ImageRequest(url: url) }
        var urlRequest = URLRequest(url: url)
        urlRequest.credentialName = credential
        var request = ImageRequest(urlRequest: urlRequest)
        request.credentialScope = credential
        return request
    }

    /// The request for the source; nil if that is not a URL.
    package var sourceRequest: ImageRequest? { URL(string: source).map { request(at: $0) } }

    /// The key of the original in the cache; nil if the source is not a URL.
    var original: CacheKey? { URL(string: source).map { CacheKey.original(of: request(at: $0)) } }
}
