package import Foundation
internal import MegatonPipeline

/// The wire form. Unknown fields are refused by name, and so is every value that cannot work.
extension Job: Codable {
    enum CodingKeys: String, CodingKey, CaseIterable {
        case id, kind, source, renditions, preset, output, batch, priority, attempts, credential, labels, requeuedFrom
        case failOn
        case ignoresRememberedFailures = "ignoreRememberedFailures"
        case replace, reload, refused
    }

    /// - Throws: `DecodingError` with a sentence that names the field, its value and the allowed values.
    public init(from decoder: any Decoder) throws {
        let isChecked = decoder.userInfo[.wasValidated] as? Bool == true
        let fields = try decoder.fields(
            CodingKeys.self,
            isChecked: isChecked,
            allowed: #"an object such as {"source": "https://example.com/a.jpg"}"#
        )
        func text(_ key: CodingKeys, _ allowed: String) throws -> String? {
            try fields.read(String.self, key, allowed: allowed)
        }
        guard let source = try text(.source, Self.allowedSources) else {
            throw FieldProblem("source", "is missing; allowed \(Self.allowedSources)").error(at: decoder.codingPath)
        }
        // An invalid value is not shown: it may be a secret given in place of its name.
        guard let credential = try? fields.decodeIfPresent(String.self, forKey: .credential) ?? "-" else {
            throw Self.problem(of: .credential).error(at: decoder.codingPath)
        }
        let hasCredential = try fields.contains(.credential) && !fields.decodeNil(forKey: .credential)
        self.init(
            id: try fields.read(JobID.self, .id, allowed: JobID.allowed)?.text,
            kind: try fields.decodeIfPresent(Kind.self, forKey: .kind) ?? .process,
            source: source,
            renditions: try fields.read([Rendition].self, .renditions, allowed: "are lists of objects"),
            preset: try text(.preset, "are names of the coordinator's presets"),
            output: try text(.output, "are texts such as \"file:///srv/{path}/{stem}-{name}.{ext}\""),
            batch: try text(.batch, Self.allowedNames),
            priority: try fields.decodeIfPresent(Priority.self, forKey: .priority) ?? .normal,
            attempts: try fields.read(Int.self, .attempts, allowed: "are whole numbers from 1 to 100") ?? 5,
            credential: hasCredential ? credential : nil,
            ignoresRememberedFailures: try fields.read(
                Bool.self,
                .ignoresRememberedFailures,
                allowed: "are true and false"
            ) ?? false,
            labels: try fields.read(Labels.self, .labels, allowed: "are objects of texts, numbers, true and false"),
            requeuedFrom: try text(.requeuedFrom, Self.allowedNames),
            failOn: try fields.decodeIfPresent(Rendition.FailOn.self, forKey: .failOn)
        )
        replace = try fields.decodeIfPresent(Replacement.self, forKey: .replace)
        reload = try fields.read(Bool.self, .reload, allowed: "are true and false")
        refused = try text(.refused, "are reasons of the client that submits the job")
        if !isChecked, let problem { throw problem.error(at: decoder.codingPath) }
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
        // Usually left out: earlier versions refuse fields that they do not know.
        if ignoresRememberedFailures { try fields.encode(true, forKey: .ignoresRememberedFailures) }
        try fields.encodeIfPresent(labels, forKey: .labels)
        try fields.encodeIfPresent(requeuedFrom, forKey: .requeuedFrom)
        try fields.encodeIfPresent(failOn, forKey: .failOn)
        try fields.encodeIfPresent(replace, forKey: .replace)
        try fields.encodeIfPresent(reload, forKey: .reload)
        try fields.encodeIfPresent(refused, forKey: .refused)
    }

    /// Describes the first invalid value; nil if all are valid.
    package var validationError: String? { problem?.description }

    /// The first field whose value cannot be used; nil if there is none.
    var problem: FieldProblem? {
        if let refused { return FieldProblem("", "is refused: \(refused)") }
        if let id, !Self.isName(id) {
            return FieldProblem("id", "is \(FieldProblem.quoted(id)); allowed \(JobID.allowed)")
        }
        for (field, name) in [("batch", batch), ("requeuedFrom", requeuedFrom)] {
            if let name, !Self.isName(name) {
                return FieldProblem(field, "is \(FieldProblem.quoted(name)); allowed \(Self.allowedNames)")
            }
        }
        if let credential, !Self.isName(credential) { return Self.problem(of: .credential) }
        if source.isEmpty { return FieldProblem("source", "is empty; allowed \(Self.allowedSources)") }
        if !(1...100).contains(attempts) { return FieldProblem("attempts", "is \(attempts); allowed are 1 to 100") }
        if let labels, let problem = Self.problem(labels) { return problem }
        return renditionsProblem ?? outputProblem
    }

    private var renditionsProblem: FieldProblem? {
        guard let renditions else { return nil }
        if renditions.isEmpty {
            return FieldProblem("renditions", "is empty; allowed are 1 to \(Self.maximumRenditions) renditions")
        }
        if renditions.count > Self.maximumRenditions {
            return FieldProblem(
                "renditions",
                "has \(renditions.count) renditions; allowed are 1 to \(Self.maximumRenditions)"
            )
        }
        var places: [String: Int] = [:]
        for (place, rendition) in renditions.enumerated() {
            if let other = places.updateValue(place, forKey: rendition.name) {
                let name = FieldProblem.quoted(rendition.name)
                return FieldProblem("renditions[\(place)].name", "is \(name), a name that renditions[\(other)] shares")
            }
        }
        return preset == nil ? nil : FieldProblem("preset", "goes with no renditions: a job has either of them")
    }

    private var outputProblem: FieldProblem? {
        guard let output else { return nil }
        do {
            _ = try OutputTemplate(output)
            return nil
        } catch {
            return FieldProblem("output", "is \(FieldProblem.quoted(output)): \(error.message)")
        }
    }

    private static let allowedNames = "are texts of 1 to 128 of the characters A-Z a-z 0-9 . _ : -"
    private static let allowedSources = "are URLs with https:, http:, file:, data:, s3: or ftp:"

    private static func problem(of key: CodingKeys) -> FieldProblem {
        FieldProblem(key.rawValue, "is not the name of one; allowed \(allowedNames)")
    }

    /// Whether a text may be the id of a job, or the name of a batch or a credential.
    package static func isName(_ text: String) -> Bool {
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
    /// - Parameter wasValidated: whether a coordinator has admitted this JSON.
    /// - Throws: `JobError` with a sentence for the author of the JSON.
    package init(json: Data, wasValidated: Bool = false) throws(JobError) {
        guard json.count <= Self.maximumSize else {
            throw JobError("the job has \(json.count) bytes of JSON; allowed are \(Self.maximumSize)")
        }
        if let job = Self(plainJSON: json), wasValidated || job.validationError == nil {
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
    package func json() -> Data { WireJSON.data(self) }
}

/// A job that cannot be accepted.
package struct JobError: Error, Sendable, Equatable {
    /// A sentence that describes the problem.
    package let message: String

    package init(_ message: String) { self.message = message }

    init(_ error: DecodingError) {
        if let problem = error.fieldProblem {
            message = problem.path.isEmpty ? "the job \(problem.problem)" : problem.description
            return
        }
        switch error {
        case .dataCorrupted(let context) where context.codingPath.isEmpty:
            message = "the job is not valid JSON"
        case .dataCorrupted(let context), .typeMismatch(_, let context), .valueNotFound(_, let context),
            .keyNotFound(_, let context):
            message = "\(FieldProblem.path(context.codingPath)) cannot be read"
        @unknown default:
            message = "the job cannot be read"
        }
    }
}
