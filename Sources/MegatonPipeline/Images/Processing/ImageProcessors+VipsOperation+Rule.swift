extension ImageProcessors.VipsOperation {
    /// The arguments that an operation accepts, and its treatment of alpha.
    struct Rule {
        /// Values that an argument may have.
        enum Range {
            case int(ClosedRange<Int>)
            case double(ClosedRange<Double>)
            /// A range for each element of a list of 1 to 4 numbers.
            case doubles(ClosedRange<Double>)
            case bool
            case names(Set<String>)
        }

        enum Alpha {
            /// The operation runs without alpha, which is added back afterwards.
            case stays
            /// Alpha is moved with the other bands.
            case moves
            /// The operation mixes neighboring pixels, so it runs on premultiplied samples.
            case blends
        }

        struct ValidationError: Error { let text: String }

        var required: [String: Range] = [:]
        var optional: [String: Range] = [:]
        var alpha = Alpha.stays

        /// Checks the arguments, and converts integers to fractions if an argument takes fractions.
        func checked(_ arguments: [String: Argument]) -> Result<[String: Argument], ValidationError> {
            var checked: [String: Argument] = [:]
            for (name, value) in arguments.sorted(by: { $0.key < $1.key }) {
                guard let range = required[name] ?? optional[name] else {
                    let known = (Array(required.keys) + optional.keys).sorted().joined(separator: ", ")
                    return .failure(
                        ValidationError(
                            text: "there is no argument \(name); the arguments are \(known.isEmpty ? "none" : known)"
                        )
                    )
                }
                guard let fitting = range.fitting(value) else {
                    return .failure(ValidationError(text: "\(name) must be \(range.description)"))
                }
                checked[name] = fitting
            }
            for name in required.keys.sorted() where checked[name] == nil {
                return .failure(ValidationError(text: "\(name) is missing"))
            }
            return .success(checked)
        }
    }
}

extension ImageProcessors.VipsOperation.Rule.Range: CustomStringConvertible {
    /// The value as the operation expects it; nil if it is out of range. NaN is always out of range.
    func fitting(_ value: ImageProcessors.VipsOperation.Argument) -> ImageProcessors.VipsOperation.Argument? {
        switch (self, value) {
        case (.int(let range), .int(let number)): range.contains(number) ? value : nil
        case (.double(let range), .double(let number)): range.contains(number) ? value : nil
        case (.double(let range), .int(let number)): range.contains(Double(number)) ? .double(Double(number)) : nil
        case (.doubles(let range), .doubles(let numbers)):
            (1...4).contains(numbers.count) && numbers.allSatisfy(range.contains) ? value : nil
        case (.doubles(let range), .double(let number)): range.contains(number) ? .doubles([number]) : nil
        case (.doubles(let range), .int(let number)): range.contains(Double(number)) ? .doubles([Double(number)]) : nil
        case (.bool, .bool): value
        case (.names(let names), .name(let name)): names.contains(name) ? value : nil
        default: nil
        }
    }

    var description: String {
        switch self {
        case .int(let range): "a whole number, \(range.lowerBound) to \(range.upperBound)"
        case .double(let range): "a number, \(range.lowerBound) to \(range.upperBound)"
        case .doubles(let range): "1 to 4 numbers, \(range.lowerBound) to \(range.upperBound)"
        case .bool: "true or false"
        case .names(let names): "one of \(names.sorted().joined(separator: ", "))"
        }
    }
}

extension ImageProcessors.VipsOperation.Rule {
    /// The allowed operations. None has a text, bytes, a file or a second image as an argument, and none enlarges the
    /// image.
    static let all: [String: Self] = {
        let window = Range.int(1...64)
        let band = Range.int(0...3)
        let factor = Range.doubles(-1000...1000)
        let precision = Range.names(["integer", "float", "approximate"])
        let quarters = Range.names(["d0", "d90", "d180", "d270"])
        return [
            "invert": Self(),
            "gamma": Self(optional: ["exponent": .double(0.01...100)]),
            "linear": Self(required: ["a": factor, "b": factor]),
            "sharpen": Self(
                optional: [
                    "sigma": .double(0.01...10), "x1": .double(0...100), "y2": .double(0...100),
                    "y3": .double(0...100), "m1": .double(0...100), "m2": .double(0...100),
                ]
            ),
            "gaussblur": Self(
                required: ["sigma": .double(0...100)],
                optional: ["min-ampl": .double(0.01...1), "precision": precision],
                alpha: .blends
            ),
            "rank": Self(required: ["width": window, "height": window, "index": .int(0...4095)]),
            "sobel": Self(),
            "canny": Self(optional: ["sigma": .double(0.01...100), "precision": precision]),
            "hist_equal": Self(optional: ["band": .int(-1...3)]),
            "hist_local": Self(required: ["width": window, "height": window], optional: ["max-slope": .int(0...100)]),
            "hist_norm": Self(),
            "stdif": Self(
                required: ["width": window, "height": window],
                optional: [
                    "s0": .double(0...255), "b": .double(0...2), "m0": .double(0...255), "a": .double(0...1),
                ]
            ),
            "falsecolour": Self(),
            "bandmean": Self(),
            "extract_band": Self(required: ["band": band], optional: ["n": .int(1...4)], alpha: .moves),
            "msb": Self(optional: ["band": .int(-1...3)]),
            "scale": Self(optional: ["exp": .double(0.01...100), "log": .bool]),
            "colourspace": Self(required: ["space": .names(["srgb", "b-w"])]),
            "flip": Self(required: ["direction": .names(["horizontal", "vertical"])], alpha: .moves),
            "rot": Self(required: ["angle": quarters], alpha: .moves),
            "rot45": Self(
                optional: ["angle": .names(["d0", "d45", "d90", "d135", "d180", "d225", "d270", "d315"])],
                alpha: .moves
            ),
            "wrap": Self(optional: ["x": .int(-8192...8192), "y": .int(-8192...8192)], alpha: .moves),
        ]
    }()
}
