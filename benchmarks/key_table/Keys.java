/**
 * Prints the keys of RocketMQ's configuration classes: role, key, type, values of an enum, default,
 * separated by tabs. A key is what MixAll.properties2Object takes: a setter of one plain value.
 *
 * <p>Arguments: ROLE=CLASS. A class that this release lacks is passed over.
 */
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

public final class Keys {
    private static final Set<String> TYPES =
            Set.of("int", "Integer", "long", "Long", "double", "Double", "boolean", "Boolean",
                    "float", "Float", "String");

    public static void main(String[] classes) throws Exception {
        for (String named : classes) {
            String[] parts = named.split("=");
            Class<?> type;
            try {
                type = Class.forName(parts[1]);
            } catch (ClassNotFoundException absent) {
                continue; // not of this release
            }
            Object fresh = type.getDeclaredConstructor().newInstance();
            for (Method method : type.getMethods()) {
                if (method.getName().length() > 3 && method.getName().startsWith("set")
                        && method.getParameterCount() == 1
                        && TYPES.contains(method.getParameterTypes()[0].getSimpleName())) {
                    print(parts[0], type, fresh, method);
                }
            }
        }
    }

    private static void print(String role, Class<?> type, Object fresh, Method setter)
            throws Exception {
        String name = setter.getName().substring(3);
        Object value = null;
        List<String> values = new ArrayList<>();
        for (String prefix : List.of("get", "is")) {
            try {
                Method getter = type.getMethod(prefix + name);
                value = getter.invoke(fresh);
                if (getter.getReturnType().isEnum()) {
                    for (Object constant : getter.getReturnType().getEnumConstants()) {
                        values.add(constant.toString());
                    }
                }
                break;
            } catch (NoSuchMethodException absent) {
                // perhaps the other prefix
            }
        }
        System.out.println(String.join("\t", role,
                name.substring(0, 1).toLowerCase() + name.substring(1),
                setter.getParameterTypes()[0].getSimpleName().toLowerCase(),
                String.join(",", values), value == null ? "" : value.toString()));
    }
}
