internal import MegatonCore
internal import MegatonPipeline

extension ImageOptions {
    private static let sides = 0...Rendition.maximumSide
    /// Larger offsets are larger than any image.
    private static let offsetLimit = 1e9
    private static let offsets = -Double(Rendition.maximumSide)...Double(Rendition.maximumSide)
    private static let compass: [(String, Rendition.Gravity)] = [
        ("ce", .center), ("no", .north), ("so", .south), ("ea", .east), ("we", .west), ("noea", .northEast),
        ("nowe", .northWest), ("soea", .southEast), ("sowe", .southWest),
    ]
    private static let positions: [(String, Rendition.Watermark.Position)] = [
        ("ce", .center), ("no", .north), ("so", .south), ("ea", .east), ("we", .west), ("noea", .northEast),
        ("nowe", .northWest), ("soea", .southEast), ("sowe", .southWest), ("re", .repeat),
    ]

    /// Applies one option, which is not `preset`.
    mutating func apply(_ option: ImageArguments) throws(ImageURLError) {
        switch try ImageOption.of(option) {
        case .resize: try readResize(option)
        case .size: try readSize(option)
        case .resizingType: try readResizingType(option, 1...1)
        case .width: width = try single(option).whole(0, Self.sides)
        case .height: height = try single(option).whole(0, Self.sides)
        case .minWidth, .minHeight:
            if try single(option)[0] != "0" { throw option.problem(0, allowed: "is 0") }
        case .zoom: try readZoom(option)
        case .dpr: dpr = try single(option).number(0, 1...4)
        case .enlarge: enlarge = try single(option).flag(0)
        case .extend: try readExtend(option)
        case .extendAspectRatio: try refuseUnlessOff(option, "is 0")
        case .gravity: try readGravity(option)
        case .trim: try readTrim(option)
        case .padding: try readPadding(option)
        case .autoRotate:
            if try !single(option).flag(0) {
                throw option.problem(0, allowed: "is 1: images are always rotated as their EXIF says")
            }
        case .rotate: try readRotate(option)
        case .flip: try readFlip(option)
        case .background: try readBackground(option)
        case .blur: blur = try single(option).numberOrOff(0.3...100)
        case .sharpen: sharpen = try single(option).numberOrOff(0.1...10)
        case .pixelate:
            // A pixel of one pixel is no change.
            if try !["0", "1"].contains(single(option)[0]) { throw option.problem(0, allowed: "are 0 and 1") }
        case .watermark: try readWatermark(option)
        case .stripMetadata:
            if try !single(option).flag(0) {
                throw option.problem(0, allowed: "is 1; keep_copyright:1 keeps the copyright")
            }
        case .keepCopyright: keepsCopyright = try single(option).flag(0)
        case .stripColorProfile: keepsProfile = try !single(option).flag(0)
        case .enforceThumbnail: try refuseUnlessOff(option, "is 0")
        case .quality: quality = try zeroAsNil(single(option).whole(0, 0...100))
        case .formatQuality: try readFormatQuality(option)
        case .maxBytes: maxBytes = try zeroAsNil(single(option).whole(0, 0...(1 << 30)))
        case .format: format = try single(option).format()
        case .raw: try refuseUnlessOff(option, "is 0: sources are never passed on unprocessed")
        case .cacheBuster: try option.checkCount(1...1)
        case .expires: try readExpires(option)
        case .fileName: try readFileName(option)
        case .returnAttachment: isAttachment = try single(option).flag(0)
        case .preset: throw option.problem(0, allowed: "are no presets at this place")
        }
    }

    /// The format after the source, which replaces that of the options.
    mutating func apply(format: String) throws(ImageURLError) {
        self.format = try ImageArguments("extension:" + format).format()
    }

    private func single(_ option: ImageArguments) throws(ImageURLError) -> ImageArguments {
        try option.checkCount(1...1)
        return option
    }

    private func refuseUnlessOff(_ option: ImageArguments, _ allowed: String) throws(ImageURLError) {
        if try option.flag(0) { throw option.problem(0, allowed: allowed) }
    }

    private func zeroAsNil(_ number: Int) -> Int? { number == 0 ? nil : number }

    // MARK: - Size

    private mutating func readResize(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...8)
        if !option[0].isEmpty { try readResizingType(option, 1...8) }
        try readSizes(option.dropping(1))
    }

    private mutating func readSize(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...7)
        try readSizes(option)
    }

    /// Width, height, enlarge and extend; an empty argument leaves its value.
    private mutating func readSizes(_ option: ImageArguments) throws(ImageURLError) {
        if !option[0].isEmpty { width = try option.whole(0, "width", Self.sides) }
        if !option[1].isEmpty { height = try option.whole(1, "height", Self.sides) }
        if !option[2].isEmpty { enlarge = try option.flag(2, "enlarge") }
        if option.values.count > 3 && !option[3].isEmpty { try readExtend(option.dropping(3)) }
    }

    private mutating func readResizingType(_ option: ImageArguments, _ counts: ClosedRange<Int>) throws(ImageURLError) {
        try option.checkCount(counts)
        let types: [(String, Resizing)] = [
            ("fit", .fit), ("fill", .fill), ("fill-down", .fillDown), ("force", .force), ("auto", .auto),
        ]
        resizing = try option.word(0, "resizing type", among: types)
    }

    private mutating func readZoom(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...2)
        let factors = 0.01...100.0
        let x = try option.number(0, "factor", factors)
        if option.values.count > 1, try option.number(1, "factor", factors) != x {
            throw option.problem(1, "factor", allowed: "is that of the width, \(option[0])")
        }
        zoom = x
    }

    private mutating func readExtend(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...4)
        extend = try option.flag(0, "extend")
        guard option.values.count > 1 else { return }
        if option[1] != "ce" { throw option.problem(1, "gravity", allowed: "is ce") }
        try checkNoOffsets(option, from: 2)
    }

    private mutating func readGravity(_ option: ImageArguments) throws(ImageURLError) {
        switch option[0] {
        case "fp":
            try option.checkCount(3...3)
            let x = try option.number(1, "x", 0...1)
            anchor = .point(x: x, y: try option.number(2, "y", 0...1))
        case "sm":
            try option.checkCount(1...1)
            anchor = .toward(.attention)
        default:
            guard let gravity = Self.compass.first(where: { $0.0 == option[0] }) else {
                let words = Self.compass.map(\.0).joined(separator: ", ")
                throw option.problem(0, "type", allowed: "are \(words), sm, and fp:x:y with x and y from 0 to 1")
            }
            try option.checkCount(1...3)
            anchor = try offset(gravity.1, option) ?? .toward(gravity.1)
        }
    }

    /// The point that a direction with offsets keeps in the middle; nil if they are 0.
    ///
    /// A fraction of the side moves the middle of the part that is kept by as much, so that it is a point. From an
    /// edge, or in pixels, it would be another point for each size of the source.
    private func offset(_ gravity: Rendition.Gravity, _ option: ImageArguments) throws(ImageURLError) -> Anchor? {
        guard let halves = gravity.halves else { return nil }
        var point = (x: Double(halves.horizontal) / 2, y: Double(halves.vertical) / 2)
        var isMoved = false
        for (index, half) in [(1, halves.horizontal), (2, halves.vertical)] where !option[index].isEmpty {
            let fraction = try option.number(index, "offset", -Self.offsetLimit...Self.offsetLimit)
            if fraction == 0 { continue }
            guard half == 1, abs(fraction) < 1 else {
                throw option.problem(
                    index,
                    "offset",
                    allowed: "are 0 and, from the middle, fractions between -1 and 1; fp:x:y chooses a part more finely"
                )
            }
            isMoved = true
            if index == 1 { point.x = min(max(0, 0.5 + fraction), 1) } else { point.y = min(max(0, 0.5 + fraction), 1) }
        }
        return isMoved ? .point(x: point.x, y: point.y) : nil
    }

    private func checkNoOffsets(_ option: ImageArguments, from index: Int) throws(ImageURLError) {
        for index in option.values.indices.dropFirst(index) where Double(option[index]) != 0 {
            throw option.problem(index, "offset", allowed: "is 0; fp:x:y chooses a part more finely")
        }
    }

    // MARK: - Changes of the pixels

    private mutating func readTrim(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...4)
        if !option[1].isEmpty {
            throw option.problem(1, "color", allowed: "is none: the color of the top left pixel is trimmed")
        }
        for index in [2, 3] where !option[index].isEmpty {
            if try option.flag(index, "equal part") { throw option.problem(index, "equal part", allowed: "is 0") }
        }
        trim = try option[0].isEmpty ? nil : wholeNumber(option, 0, "threshold", 0...255)
    }

    /// A whole number that may be written with a fraction of zeros.
    private func wholeNumber(
        _ option: ImageArguments,
        _ index: Int,
        _ part: String,
        _ range: ClosedRange<Int>
    ) throws(ImageURLError) -> Int {
        let allowed = "are whole numbers from \(range.lowerBound) to \(range.upperBound)"
        let number = try option.number(index, part, -1e9...1e9)
        guard let whole = Int(exactly: number), range.contains(whole) else {
            throw option.problem(index, part, allowed: allowed)
        }
        return whole
    }

    private mutating func readPadding(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...4)
        func side(_ index: Int, _ part: String, otherwise: Int) throws(ImageURLError) -> Int {
            try option[index].isEmpty ? otherwise : option.whole(index, part, Self.sides)
        }
        // A side that is not given equals the opposite one, and these the top, as in CSS.
        let top = try side(0, "top", otherwise: 0)
        let right = try side(1, "right", otherwise: top)
        let bottom = try side(2, "bottom", otherwise: top)
        let left = try side(3, "left", otherwise: right)
        let isNone = [top, right, bottom, left].allSatisfy { $0 == 0 }
        padding = isNone ? nil : Rendition.Padding(top: top, right: right, bottom: bottom, left: left)
    }

    private mutating func readRotate(_ option: ImageArguments) throws(ImageURLError) {
        let angle = try single(option).whole(0, "angle", -3600...3600)
        guard angle.isMultiple(of: 90) else { throw option.problem(0, "angle", allowed: "are multiples of 90") }
        quarterTurns = (angle / 90 % 4 + 4) % 4
    }

    private mutating func readFlip(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...2)
        if !option[0].isEmpty { flipsHorizontally = try option.flag(0, "horizontal") }
        if !option[1].isEmpty { flipsVertically = try option.flag(1, "vertical") }
    }

    private mutating func readBackground(_ option: ImageArguments) throws(ImageURLError) {
        switch option.values.count {
        case 1: background = try option[0].isEmpty ? nil : option.color(0)
        case 3:
            let red = try option.whole(0, "red", 0...255)
            let green = try option.whole(1, "green", 0...255)
            let blue = try option.whole(2, "blue", 0...255)
            background = Color(red: UInt8(red), green: UInt8(green), blue: UInt8(blue))
        default:
            throw ImageURLError(
                .option,
                "Option \(FieldProblem.quoted(option.name)) has \(option.values.count) arguments; allowed are one, hex "
                    + "digits such as ff8800, or three, red, green and blue"
            )
        }
    }

    private mutating func readWatermark(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...5)
        mark.opacity = try option.number(0, "opacity", 0...1)
        if !option[1].isEmpty { mark.position = try option.word(1, "position", among: Self.positions) }
        if !option[2].isEmpty { mark.x = try option.number(2, "x offset", Self.offsets) }
        if !option[3].isEmpty { mark.y = try option.number(3, "y offset", Self.offsets) }
        guard !option[4].isEmpty else { return }
        let scale = try option.number(4, "scale", 0...1)
        if scale != 0 && scale < 0.01 { throw option.problem(4, "scale", allowed: "are 0 and numbers from 0.01 to 1") }
        mark.scale = scale == 0 ? nil : scale
    }

    // MARK: - The file

    private mutating func readFormatQuality(_ option: ImageArguments) throws(ImageURLError) {
        guard !option.values.isEmpty, option.values.count.isMultiple(of: 2) else {
            throw ImageURLError(
                .option,
                "Option \(FieldProblem.quoted(option.name)) has \(option.values.count) arguments; allowed are pairs of "
                    + "format and quality"
            )
        }
        for index in stride(from: 0, to: option.values.count, by: 2) {
            let format = try option.format(index)
            qualities[format] = try option.whole(index + 1, "quality", 1...100)
        }
    }

    private mutating func readExpires(_ option: ImageArguments) throws(ImageURLError) {
        // A hundred centuries: later numbers are milliseconds by mistake.
        let seconds = try single(option).whole(0, "time", 0...315_569_520_000)
        if seconds > 0 { expiry = min(seconds, expiry ?? seconds) }
    }

    private mutating func readFileName(_ option: ImageArguments) throws(ImageURLError) {
        try option.checkCount(1...2)
        let isEncoded = try option[1].isEmpty ? false : option.flag(1, "encoding")
        let bytes: [UInt8]?
        if isEncoded {
            var digits = Array(option[0].utf8)
            while digits.last == UInt8(ascii: "=") { digits.removeLast() }
            bytes = Base64URL.decode(digits)
        } else {
            bytes = PercentEncoding.decode(Array(option[0].utf8))
        }
        guard let name = bytes.flatMap({ String(validating: $0, as: UTF8.self) }), (1...255).contains(name.utf8.count),
            name.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control && $0 != "/" && $0 != "\\" })
        else {
            throw option.problem(
                0,
                "name",
                allowed: "are 1 to 255 bytes in UTF-8 without slashes and control characters, percent-encoded, or in "
                    + "URL-safe base64 with :1 after it"
            )
        }
        fileName = name
    }
}
