public import Foundation
internal import MegatonPipeline

/// The wire form. Unknown fields are refused by name, and so is every value that could not work.
extension Job: Codable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case id, kind, source, renditions, preset, output, batch, priority, attempts, credential
        case ignoresRememberedFailures = "ignore_remembered_failures"
    }

    /// - Throws: `DecodingError` with a sentence that names the field.
    public init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        if !isChecked { try decoder.refuseUnknownFields(except: CodingKeys.self) }
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            id: try fields.decodeIfPresent(String.self, forKey: .id),
            kind: try fields.decodeIfPresent(Kind.self, forKey: .kind) ?? .process,
            source: try fields.decode(String.self, forKey: .source),
            renditions: try fields.decodeIfPresent([Rendition].self, forKey: .renditions),
            preset: try fields.decodeIfPresent(String.self, forKey: .preset),
            output: try fields.decodeIfPresent(String.self, forKey: .output),
            batch: try fields.decodeIfPresent(String.self, forKey: .batch),
            priority: try fields.decodeIfPresent(Priority.self, forKey: .priority) ?? .normal,
            attempts: try fields.decodeIfPresent(Int.self, forKey: .attempts) ?? 5,
            credential: try fields.decodeIfPresent(String.self, forKey: .credential),
            ignoresRememberedFailures: try fields.decodeIfPresent(Bool.self, forKey: .ignoresRememberedFailures)
                ?? false
        )
        if !isChecked, let complaint {
            throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: complaint))
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encodeIfPresent(id, forKey: .id)
        try fields.encode(kind, forKey: .kind)
        try fields.encode(source, forKey: .source)
        try fields.encodeIfPresent(renditions, forKey: .renditions)
        try fields.encodeIfPresent(preset, forKey: .preset)
        try fields.encodeIfPresent(output, forKey: .output)
        try fields.encodeIfPresent(batch, forKey: .batch)
        try fields.encode(priority, forKey: .priority)
        try fields.encode(attempts, forKey: .attempts)
        try fields.encodeIfPresent(credential, forKey: .credential)
        // Left out as a rule: earlier versions refuse fields that they do not know.
        if ignoresRememberedFailures { try fields.encode(true, forKey: .ignoresRememberedFailures) }
    }

    /// Says what is wrong with the values, or nil.
    public var complaint: String? {
        if let id, !Self.isName(id) { return "id must match [A-Za-z0-9._:-]{1,128}" }
        if let batch, !Self.isName(batch) { return "batch must match [A-Za-z0-9._:-]{1,128}" }
        if let credential, !Self.isName(credential) { return "credential must match [A-Za-z0-9._:-]{1,128}" }
        if source.isEmpty { return "source is empty" }
        if !(1...100).contains(attempts) { return "attempts is 1 to 100" }
        if let renditions {
            if renditions.isEmpty { return "renditions is empty" }
            if renditions.count > Self.maximumRenditions {
                return "a job may have \(Self.maximumRenditions) renditions; this one has \(renditions.count)"
            }
            if Set(renditions.map(\.name)).count < renditions.count { return "two renditions share a name" }
            if preset != nil { return "a job has either renditions or a preset" }
        }
        if let output {
            do {
                _ = try OutputTemplate(output)
            } catch {
                return error.message
            }
        }
        return nil
    }

    /// Whether a text may be the id of a job, or the name of a batch or a credential.
    public static func isName(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 45, 46, 48...58, 65...90, 95, 97...122: true
                default: false
                }
            }
    }
}

extension Job {
    /// Reads the wire form.
    ///
    /// - Parameter wasValidated: the JSON is what a coordinator admitted.
    /// - Throws: `JobError` with a sentence for whoever wrote the JSON.
    public init(json: Data, wasValidated: Bool = false) throws(JobError) {
        guard json.count <= Self.maximumSize else {
            throw JobError("a job's JSON may have \(Self.maximumSize) bytes; this one has \(json.count)")
        }
        if let job = Self(plainJSON: json), wasValidated || job.complaint == nil {
            self = job
            return
        }
        do {
            let decoder = JSONDecoder()
            decoder.userInfo[.wasValidated] = wasValidated
            self = try decoder.decode(Job.self, from: json)
        } catch let error as DecodingError {
            throw JobError(error)
        } catch {
            throw JobError("\(error)")
        }
    }

    /// The wire form, with sorted fields.
    public func json() -> Data { WireJSON.data(self) }
}

/// A job that cannot be accepted.
public struct JobError: Error, Sendable, Equatable {
    /// What is wrong with it.
    public let message: String

    public init(_ message: String) { self.message = message }

    init(_ error: DecodingError) {
        let (context, what): (DecodingError.Context, String) =
            switch error {
            case .keyNotFound(let key, let context): (context, "the field \"\(key.stringValue)\" is missing")
            case .typeMismatch(_, let context), .valueNotFound(_, let context): (context, "a value has the wrong type")
            case .dataCorrupted(let context): (context, context.debugDescription)
            @unknown default: (.init(codingPath: [], debugDescription: ""), "\(error)")
            }
        let path = context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? ".\($0.stringValue)" }.joined()
        message = path.isEmpty ? what : "\(what) (at \(path.drop { $0 == "." }))"
    }
}
