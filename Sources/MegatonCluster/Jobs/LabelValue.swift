internal import Foundation
internal import MegatonPipeline

/// A value of a job's labels: what a submitter wants to find again in the job's outcome. It comes back as it was.
public enum LabelValue: Sendable, Hashable, Codable {
    case text(String)
    case integer(Int)
    case number(Double)
    case bool(Bool)

    /// - Throws: `DecodingError` for null, lists, objects, and numbers whose digits neither 64 bits nor a double can keep.
    public init(from decoder: any Decoder) throws {
        let value = try decoder.singleValueContainer()
        if let bool = try? value.decode(Bool.self) {
            self = .bool(bool)
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let integer = try? value.decode(Int.self) {
            self = .integer(integer)
        } else if let number = try? value.decode(Double.self) {
            // Beyond Decimal's range there is nothing to compare with, and few digits besides.
            if let exact = try? value.decode(Decimal.self), Decimal(string: "\(number)") != exact {
                throw FieldProblem.error(at: decoder.codingPath, "is a number with too many digits; write it as a text")
            }
            self = .number(number)
        } else {
            let shown = FieldProblem.value(of: decoder)
            throw FieldProblem.error(
                at: decoder.codingPath,
                "is \(shown); allowed are texts, numbers, true and false"
            )
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        switch self {
        case .text(let text): try value.encode(text)
        case .integer(let integer): try value.encode(integer)
        case .number(let number): try value.encode(number)
        case .bool(let bool): try value.encode(bool)
        }
    }
}

extension Job {
    /// A submitter's notes on a job.
    public typealias Labels = [String: LabelValue]

    /// Bytes of the labels' JSON.
    public static let maximumLabels = 1024

    /// The first thing that is wrong with labels, or nil.
    static func problem(_ labels: Labels) -> FieldProblem? {
        // No sum of numbers that a field can have would go beyond this, and encoding takes longer than counting.
        let texts = labels.reduce(0) { $0 + $1.key.utf8.count }
        let size = texts > maximumLabels ? texts : WireJSON.data(labels).count
        if size <= maximumLabels { return nil }
        return FieldProblem("labels", "has \(size) bytes of JSON; allowed are \(maximumLabels)")
    }
}
